//! `kubexm-install registry`.

mod prune;

use kubexm_terminal::{Display, Failure};

/// Remove earlier bundles from the cluster's registry
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Prune(prune::Args),
}

impl Args {
    /// Whether the output is JSON for programs.
    pub const fn json(&self) -> bool {
        let Verb::Prune(args) = &self.verb;
        args.json
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let Verb::Prune(args) = &args.verb;
    prune::run(args, display)
}
