//! `kubexm-bundle push`.

use std::path::PathBuf;

use kubexm_archive::Bundle;
use kubexm_builder::oci::{Address, Push, Pushed, push};
use kubexm_builder::session::Session;
use kubexm_spec::event::EventKind;
use kubexm_spec::{ExitCode, counted};
use kubexm_terminal::{Display, Failure, bytes};
use kubexm_transport::{HttpClient, HttpOptions, ImageCandidate, OciRegistry};
use serde_json::json;

use super::fetching::runtime;
use super::sbom;

/// Put a bundle into an OCI registry, as one artifact
///
/// Its layers are the bundle's members, read from the file as they are sent; signatures and a bill of materials refer to it.
/// What the registry has is not sent again, so a push that was stopped is run again and continues. The same file gives the
/// same digest, which is printed. Logins are docker's ($DOCKER_CONFIG, ~/.docker/config.json). HOST may be any registry
/// that takes OCI manifests; without a tag it is `latest`.
///
/// Examples:
///   kubexm-bundle push site.tar.zst oci://registry.example/bundles/site:v1.34.4
///   kubexm-bundle push site.tar.zst oci://registry.example/prod/site:v1 --mount-from staging/site
///   kubexm-bundle push site.tar.zst oci://127.0.0.1:5000/site --plain-http
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle: a file, a volume or the folder of a split one, an address; a delta is pushed as it is
    bundle: PathBuf,
    /// Where to
    #[arg(value_name = "oci://HOST/REPO[:TAG]")]
    address: String,
    /// A repository of the same registry that blobs are taken from where it has them; may be given several times
    #[arg(long, value_name = "REPO")]
    mount_from: Vec<String>,
    /// Leave the bill of materials out
    #[arg(long)]
    no_sbom: bool,
    /// How many blobs are sent at once
    #[arg(short = 'j', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let address = address(&args.address)?;
    let bundle = session.bundle(&args.bundle)?;
    let sbom = if args.no_sbom { None } else { bill(&bundle)? };
    let pushed = runtime()?.block_on(send(args, &address, &bundle, sbom, (session, display)))?;
    display.emit(EventKind::Result {
        ok: true,
        exit_code: ExitCode::Ok.code(),
        summary: format!(
            "{}/{}@{} ({}; {} sent, {}; {} mounted, {} were there)",
            address.host,
            address.repository,
            pushed.digest,
            address.wanted,
            counted(pushed.sent.0 as u64, "blob"),
            bytes(pushed.sent.1),
            pushed.mounted,
            pushed.present,
        ),
        data: Some(json!({
            "schema": "kubexm.io/push/v1",
            "address": format!("oci://{}/{}@{}", address.host, address.repository, pushed.digest),
            "reference": address.to_string(),
            "digest": pushed.digest,
            "manifest": bundle.manifest_digest(),
            "size": pushed.size,
            "sent": { "blobs": pushed.sent.0, "bytes": pushed.sent.1 },
            "mounted": pushed.mounted,
            "present": pushed.present,
            "referrers": pushed.referrers.iter()
                .map(|(kind, digest)| json!({ "artifactType": kind, "digest": digest })).collect::<Vec<_>>(),
        })),
    });
    Ok(())
}

async fn send(
    args: &Args,
    address: &Address,
    bundle: &Bundle,
    sbom: Option<Vec<u8>>,
    (session, display): (&Session, &Display),
) -> Result<Pushed, Failure> {
    let registry = registry(session, args.jobs)?;
    let to = registry.repository(&candidate(session, address), &args.mount_from).await;
    let to = to.map_err(|e| Failure::from_error(e.exit_code(), &e))?;
    let request = Push { bundle, to: &to, wanted: &address.wanted, sbom, jobs: args.jobs.into() };
    push(&request, &|kind| display.emit(kind)).await.map_err(|e| Failure::from_error(e.exit_code(), &e))
}

/// The bytes that `kubexm-bundle sbom --format cyclonedx` prints; none where a bundle carries no catalogue.
fn bill(bundle: &Bundle) -> Result<Option<Vec<u8>>, Failure> {
    if bundle.find("catalogue.json").is_none() {
        return Ok(None);
    }
    let catalogue = sbom::catalogue(bundle)?;
    let document = {
        let sources = sbom::places(bundle)?;
        kubexm_builder::sbom::cyclonedx(&sbom::subject(bundle, &catalogue, sources.as_ref()))
    };
    Ok(Some(format!("{document:#}\n").into_bytes()))
}

/// What a user wrote after the bundle.
pub fn address(text: &str) -> Result<Address, Failure> {
    text.parse().map_err(|problem: String| {
        Failure::new(
            ExitCode::Usage,
            format!("the address is not of the form oci://HOST/REPO[:TAG|@DIGEST]: {problem}"),
        )
    })
}

/// The repository of an address, with what was said about the network.
pub fn candidate(session: &Session, address: &Address) -> ImageCandidate {
    ImageCandidate {
        plain_http: session.network().plain_http,
        ca_file: session.network().ca_file.clone(),
        ..ImageCandidate::new(&address.host, &address.repository)
    }
}

/// Clients that send or fetch so many blobs at once.
pub fn registry(session: &Session, jobs: u16) -> Result<OciRegistry, Failure> {
    let jobs = usize::from(jobs);
    let options = HttpOptions { parallel: jobs, parallel_per_host: jobs, ..session.http_options(true) };
    let http = HttpClient::new(options).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
    Ok(OciRegistry::new(http, session.credentials()))
}
