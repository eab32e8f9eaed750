//! `kubexm-bundle pull`.

use std::path::PathBuf;

use kubexm_builder::verbs::registry::{PullRequest, pull};
use kubexm_terminal::{Failure, bytes};

use crate::context::Context;

/// Fetch a bundle from an OCI registry: the same file that was pushed, byte for byte, with its signatures
///
/// Blobs are fetched into the cache that builds share; what is there is not fetched again, so a pull that was stopped is run
/// again and continues. Then the file is written from them, as its layout.json says. A split bundle comes as one file, a delta
/// as the delta. Signatures come along unchecked: `verify --key` checks them. Name a digest to get that very artifact.
///
/// Examples:
///   kubexm-bundle pull oci://registry.example/bundles/site:v1.35.4 -o site.tar.zst
///   kubexm-bundle pull oci://registry.example/bundles/site@sha256:9f86… -o site.tar.zst
///   kubexm-bundle pull oci://registry.local/site -o site.tar.zst --ca-file ca.pem
#[derive(Debug, clap::Args)]
#[command(override_usage = "kubexm-bundle pull [OPTIONS] -o <FILE> <oci://HOST/REPO[:TAG|@DIGEST]>")]
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

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    context.check_bundle_output(&args.output, None)?;
    let request = PullRequest {
        address: &args.address,
        target: &args.output,
        force: args.force,
        cache: args.cache.as_deref(),
        recode: args.recode,
        jobs: args.jobs.into(),
    };
    let pulled = pull(context.session, &request, context.runtime()?.handle())?;
    if pulled.recoded {
        context.warn(format!("{} has other bytes than the file that was pushed", args.output.display()));
    }
    let signed = match pulled.signatures {
        0 => "unsigned".to_owned(),
        1 => "1 signature, not checked".to_owned(),
        count => format!("{count} signatures, not checked"),
    };
    let (file, delta) = (args.output.display(), if pulled.delta { "a delta, " } else { "" });
    let (size, manifest, from) = (bytes(pulled.size), pulled.manifest, pulled.address.trim_start_matches("oci://"));
    context.done(format!("{file} ({delta}{size}, manifest {manifest}; {signed}) from {from}"), &pulled)
}
