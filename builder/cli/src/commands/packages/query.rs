//! `kubexm-bundle packages query`.

use kubexm_builder::verbs::packages::query::command;
use kubexm_terminal::Failure;

use crate::context::Context;

/// Print the command that lists what a host has installed, for `packages resolve --installed`
///
/// It is for a POSIX shell on the host, needs no right but to read, and changes nothing.
///
/// Examples:
///   kubexm-bundle packages query --os rocky-9
///   ssh node1 "$(kubexm-bundle packages query --os rocky-9)" > node1.txt
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Operating system of the host: debian-12, ubuntu-22.04, rocky-9
    #[arg(long, value_name = "NAME")]
    os: String,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    context.line(command(&args.os)?);
    Ok(())
}
