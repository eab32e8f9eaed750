//! `kubexm-bundle init`.

use std::path::PathBuf;

use kubexm_builder::verbs::kinds::CLUSTER;
use kubexm_spec::cluster::{Keyword, Profile};
use kubexm_terminal::Failure;

use crate::context::Context;

/// Print a commented cluster.yaml to start from
///
/// Profiles: minimal, one host with all roles; ha, three control planes behind an address of yours; harbor, images from
/// Harbor on a host of its own; cn, built from mirrors in China. Every field is named by `kubexm-bundle config`.
///
/// Examples:
///   kubexm-bundle init > cluster.yaml
///   kubexm-bundle init --profile ha -o cluster.yaml
///   KMZONE=cn kubexm-bundle build -f cluster.yaml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Kind of site
    #[arg(long, value_name = "PROFILE", default_value = "minimal", value_parser = profile)]
    profile: Profile,
    /// Write it there instead of printing it; an existing file is replaced with --force only
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the output when it is there
    #[arg(long, requires = "output")]
    force: bool,
}

fn profile(word: &str) -> Result<Profile, String> {
    Profile::of_word(word).ok_or_else(|| format!("there are: {}", Profile::WORDS.join(", ")))
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    context.give(args.profile.text(), args.output.as_deref(), &CLUSTER, args.force)
}
