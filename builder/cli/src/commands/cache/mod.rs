//! `kubexm-bundle cache`.

mod gc;
mod verify;

use super::verbs::verbs;

/// Clean and check the cache that builds share
///
/// Examples:
///   kubexm-bundle cache gc                           # what no build has used for 30 days
///   kubexm-bundle cache gc --max-size 20G --dry-run  # what would be removed to make it that small
///   kubexm-bundle cache verify                       # hash every blob again; damaged ones are removed
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

verbs! { Gc(gc), Verify(verify) }
