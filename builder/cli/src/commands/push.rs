//! `kubexm-bundle push`.

use std::path::PathBuf;

use kubexm_builder::verbs::registry::{PushRequest, push};
use kubexm_spec::counted;
use kubexm_terminal::{Failure, bytes};

use crate::context::{Context, TOOL};

/// Put a bundle into an OCI registry, as one artifact
///
/// Its layers are the bundle's members, read from the file as they are sent; signatures and a bill of materials refer to it.
/// What the registry has is not sent again, so a push that was stopped is run again and continues. The same file gives the
/// same digest, which is printed. Logins are docker's ($DOCKER_CONFIG, ~/.docker/config.json). HOST may be any registry
/// that takes OCI manifests; without a tag it is `latest`.
///
/// Examples:
///   kubexm-bundle push site.tar.zst oci://registry.example/bundles/site:v1.35.4
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

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let request = PushRequest {
        address: &args.address,
        mount_from: &args.mount_from,
        sbom: !args.no_sbom,
        jobs: args.jobs.into(),
        tool: TOOL,
    };
    let pushed = push(context.session, &args.bundle, &request, context.runtime()?.handle())?;
    let summary = format!(
        "{} ({}; {} sent, {}; {} mounted, {} were there)",
        pushed.address.trim_start_matches("oci://"),
        pushed.wanted,
        counted(pushed.sent.blobs as u64, "blob"),
        bytes(pushed.sent.bytes),
        pushed.mounted,
        pushed.present,
    );
    context.done(summary, &pushed)
}
