//! `kubexm-bundle cat`.

use std::path::PathBuf;

use kubexm_builder::verbs::cat::{Range, Request, cat};
use kubexm_spec::Platform;
use kubexm_terminal::Failure;

use crate::context::Context;

/// Write the bytes of one item to standard output, verified on the way
///
/// ITEM is an artifact key of a file (binary/kubeadm), a digest (sha256:…) or a member's name
/// (lock.yaml, cluster.yaml, manifest.json). Nothing else of the bundle is read. A whole item is
/// compared with its digest: damage ends with an exit code, after bytes may have been written. Of a
/// range, each frame is compared with the trailer's digest before it is written; the trailer is not
/// signed, so that finds damage and not forgery: verify the bundle first.
///
/// Examples:
///   kubexm-bundle cat site.tar.zst cluster.yaml
///   kubexm-bundle cat site.tar.zst binary/containerd --platform linux/arm64 | tar -tz
///   kubexm-bundle cat site.tar.zst sha256:5891… --range 1048576-2097151   # the second MiB
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle
    bundle: PathBuf,
    /// What to write out
    #[arg(value_name = "ITEM")]
    item: String,
    /// Bytes from START to END, both included and counted from 0, as in HTTP; END may be left out
    #[arg(long, value_name = "START-END")]
    range: Option<Range>,
    /// Where an item is for several platforms: linux/amd64 or linux/arm64
    #[arg(long, value_name = "OS/ARCH")]
    platform: Option<Platform>,
    /// Of a delta: a bundle that has what it leaves out; may be given several times
    #[arg(long = "base", value_name = "BUNDLE")]
    bases: Vec<PathBuf>,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let Args { bundle, item, range, platform, bases } = args;
    let request = Request { bundle, bases, item, platform: *platform, range: *range };
    Ok(cat(context.session, &request, &|piece| context.display.give(piece))?)
}
