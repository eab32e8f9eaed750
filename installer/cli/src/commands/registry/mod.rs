//! `kubexm-install registry`.

mod list;
mod prune;

use kubexm_terminal::{Display, Failure};

/// Show which bundles the cluster's registry serves, and remove earlier ones
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    List(list::Args),
    Prune(prune::Args),
}

impl Args {
    /// Whether the output is JSON for programs.
    pub const fn json(&self) -> bool {
        match &self.verb {
            Verb::List(args) => args.json,
            Verb::Prune(args) => args.json,
        }
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    match &args.verb {
        Verb::List(args) => list::run(args, display),
        Verb::Prune(args) => prune::run(args, display),
    }
}
