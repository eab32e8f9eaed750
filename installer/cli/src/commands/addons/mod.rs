//! `kubexm-install addons`.

mod apply;
mod diff;
mod list;

use kubexm_terminal::{Display, Failure};

/// Show and change what runs in the cluster beyond its own: charts and YAML of spec.addons
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    List(list::Args),
    Diff(diff::Args),
    Apply(apply::Args),
}

impl Args {
    /// Whether the output is JSON for programs.
    pub const fn json(&self) -> bool {
        match &self.verb {
            Verb::List(args) => args.json,
            Verb::Diff(args) => args.json,
            Verb::Apply(args) => args.change.json,
        }
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    match &args.verb {
        Verb::List(args) => list::run(args, display),
        Verb::Diff(args) => diff::run(args, display),
        Verb::Apply(args) => apply::run(args, display),
    }
}
