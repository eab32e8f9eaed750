//! `kubexm-bundle packages`: packages of operating systems.

mod key;
mod pool;
mod query;
mod repo;
mod resolve;
mod why;

use clap::Subcommand;
use kubexm_builder::session::Session;
use kubexm_terminal::{Display, Failure};

/// Packages of operating systems: what is needed for some of them, and repositories of your own
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Key(key::Args),
    Query(query::Args),
    Repo(repo::Args),
    Resolve(resolve::Args),
    Why(why::Args),
}

impl Args {
    /// Whether a machine reads.
    pub fn json(&self) -> bool {
        match &self.verb {
            Verb::Key(args) => args.json,
            Verb::Query(_) => false,
            Verb::Repo(args) => args.json,
            Verb::Resolve(args) => args.json,
            Verb::Why(args) => args.json,
        }
    }
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    match &args.verb {
        Verb::Key(args) => key::run(args, display),
        Verb::Query(args) => query::run(args, display),
        Verb::Repo(args) => repo::run(args, session, display),
        Verb::Resolve(args) => resolve::run(args, session, display),
        Verb::Why(args) => why::run(args, session, display),
    }
}
