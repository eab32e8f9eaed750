//! `kubexm-bundle pull`.

use std::path::PathBuf;

use kubexm_archive::Options;
use kubexm_builder::oci::{Pull, pull};
use kubexm_builder::session::Session;
use kubexm_spec::ExitCode;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure, bytes};
use serde_json::json;

use super::fetching::runtime;
use super::push::{address, candidate, registry};
use super::written::check_bundle;

/// Fetch a bundle from an OCI registry: the same file that was pushed, byte for byte, with its signatures
///
/// Blobs are fetched into the cache that builds share; what is there is not fetched again, so a pull that was stopped is run
/// again and continues. Then the file is written from them, as its layout.json says. A split bundle comes as one file, a delta
/// as the delta. Signatures come along unchecked: `verify --key` checks them. Name a digest to get that very artifact.
///
/// Examples:
///   kubexm-bundle pull oci://registry.example/bundles/site:v1.34.4 -o site.tar.zst
///   kubexm-bundle pull oci://registry.example/bundles/site@sha256:9f86… -o site.tar.zst
///   kubexm-bundle pull oci://registry.local/site -o site.tar.zst --ca-file ca.pem
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Where from
    #[arg(value_name = "oci://HOST/REPO[:TAG|@DIGEST]")]
    address: String,
    /// The file to write; - is standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file that is not a bundle
    #[arg(long)]
    force: bool,
    /// Folder of the cache [default: $KUBEXM_HOME/cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Write the file with this program's encoder where it was written with another: same content, other bytes
    #[arg(long)]
    recode: bool,
    /// How many blobs are fetched at once
    #[arg(short = 'j', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let address = address(&args.address)?;
    check_bundle(&args.output, None, args.force, args.json)?;
    let store = session.store(args.cache.as_deref())?;
    let registry = registry(session, args.jobs)?;
    let request = Pull {
        registry: &registry,
        from: &candidate(session, &address),
        wanted: &address.wanted,
        store: &store,
        target: &args.output,
        threads: Options::default().threads,
        recode: args.recode,
    };
    let pulled = runtime()?
        .block_on(pull(&request, &|kind| display.emit(kind)))
        .map_err(|e| Failure::from_error(e.exit_code(), &e))?;
    if pulled.recoded {
        let text = format!("{} has other bytes than the file that was pushed", args.output.display());
        display.emit(EventKind::Warning { text });
    }
    let signed = match pulled.signatures {
        0 => "unsigned".to_owned(),
        1 => "1 signature, not checked".to_owned(),
        count => format!("{count} signatures, not checked"),
    };
    display.emit(EventKind::Result {
        ok: true,
        exit_code: ExitCode::Ok.code(),
        summary: format!(
            "{} ({}{}, manifest {}; {signed}) from {}/{}@{}",
            args.output.display(),
            if pulled.delta { "a delta, " } else { "" },
            bytes(pulled.written.size),
            pulled.written.manifest,
            address.host,
            address.repository,
            pulled.digest,
        ),
        data: Some(json!({
            "schema": "kubexm.io/pull/v1",
            "file": args.output,
            "size": pulled.written.size,
            "manifest": pulled.written.manifest,
            "bundleId": pulled.written.bundle_id,
            "address": format!("oci://{}/{}@{}", address.host, address.repository, pulled.digest),
            "digest": pulled.digest,
            "signatures": pulled.signatures,
            "delta": pulled.delta,
            "recoded": pulled.recoded,
        })),
    });
    Ok(())
}
