//! `kubexm-bundle packages`: packages of operating systems.

mod key;
mod repo;

use clap::Subcommand;
use kubexm_terminal::{Display, Failure};

/// Packages of operating systems: repositories of your own
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Key(key::Args),
    Repo(repo::Args),
}

impl Args {
    /// Whether a machine reads.
    pub fn json(&self) -> bool {
        match &self.verb {
            Verb::Key(args) => args.json,
            Verb::Repo(args) => args.json,
        }
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    match &args.verb {
        Verb::Key(args) => key::run(args, display),
        Verb::Repo(args) => repo::run(args, display),
    }
}
