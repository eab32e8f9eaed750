//! `kubexm-bundle packages`: packages of operating systems.

mod key;
mod pool;
mod query;
mod repo;
mod resolve;
mod why;

use super::verbs::verbs;

/// Packages of operating systems: what is needed for some of them, and repositories of your own
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

verbs! { Key(key), Query(query) text, Repo(repo), Resolve(resolve), Why(why) }
