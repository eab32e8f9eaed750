//! `kubexm-install certs`.

mod check;
mod length;
mod renew;
mod requests;

use kubexm_terminal::{Display, Failure};

/// Check when certificates end, renew them, and request those that your site signs
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Check(check::Args),
    Renew(renew::Args),
    Requests(requests::Args),
}

impl Args {
    /// Whether the output is JSON for programs.
    pub const fn json(&self) -> bool {
        match &self.verb {
            Verb::Check(args) => args.json,
            Verb::Renew(args) => args.json,
            Verb::Requests(args) => args.json,
        }
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    match &args.verb {
        Verb::Check(args) => check::run(args, display),
        Verb::Renew(args) => renew::run(args, display),
        Verb::Requests(args) => requests::run(args, display),
    }
}
