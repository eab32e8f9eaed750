//! One file per verb: arguments and `run`; the doc comment of the arguments is the help.

mod build;
mod init;
mod input;
mod inspect;
mod verify;

use clap::{Parser, Subcommand};
use kubexm_terminal::{Display, Failure};

/// Builds, verifies and shows the one file that carries a Kubernetes cluster into a network without internet.
#[derive(Debug, Parser)]
#[command(name = "kubexm-bundle", version, after_help = kubexm_terminal::exit_code_table())]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    Init(init::Args),
    Build(build::Args),
    Verify(verify::Args),
    Inspect(inspect::Args),
}

impl Verb {
    /// Whether a machine reads.
    pub fn json(&self) -> bool {
        match self {
            Self::Init(_) => false,
            Self::Build(args) => args.json,
            Self::Verify(args) => args.json,
            Self::Inspect(args) => args.json,
        }
    }
}

/// Runs the verb.
pub fn run(cli: Cli, display: &Display) -> Result<(), Failure> {
    match cli.verb {
        Verb::Init(args) => init::run(&args, display),
        Verb::Build(args) => build::run(args, display),
        Verb::Verify(args) => verify::run(&args, display),
        Verb::Inspect(args) => inspect::run(&args, display),
    }
}
