//! One file per verb: arguments and `run`; the doc comment of the arguments is the help.

mod add_node;
mod addons;
mod adopt;
mod agent;
mod args;
mod backup;
mod certs;
mod change;
mod completions;
mod create;
mod create_from_backup;
mod delete_node;
mod depot;
mod drift;
mod identity;
mod inventory;
mod man_pages;
mod plan;
mod preflight;
mod recorded;
mod registry;
mod report;
mod reset;
mod restore;
mod resume;
pub mod resume_command;
mod rollback;
mod run;
mod s3_args;
mod seed;
mod status;
mod support_bundle;
mod upgrade;
mod upgrade_walk;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure};

use crate::terminal::start;

/// Creates a Kubernetes cluster from a bundle, without internet access. Without a verb: create.
///
/// Examples:
///   kubexm-install --bundle site.tar.zst                    # verify, preflight, plan, ask, install
///   kubexm-install --bundle site.tar.zst -f cluster.yaml -y
///   kubexm-install preflight --bundle site.tar.zst          # look, and change nothing
///   kubexm-install plan create --bundle site.tar.zst -o plan.json
///   kubexm-install resume                                   # continue after a failure or a crash
///   kubexm-install reset -f cluster.yaml                    # take the cluster away again
#[derive(Debug, Parser)]
#[command(
    name = "kubexm-install",
    version,
    verbatim_doc_comment,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
    after_help = kubexm_terminal::exit_code_table()
)]
pub struct Cli {
    #[command(flatten)]
    create: Option<create::Args>,
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Print log lines on standard error (RUST_LOG selects which)
    #[arg(long, global = true)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(create::Args),
    AddNode(add_node::Args),
    Addons(addons::Args),
    DeleteNode(delete_node::Args),
    Adopt(adopt::Args),
    Upgrade(upgrade::Args),
    Drift(drift::Args),
    Certs(certs::Args),
    Registry(registry::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Preflight(preflight::Args),
    Plan(plan::Args),
    Run(run::Args),
    Resume(resume::Args),
    Rollback(rollback::Args),
    Reset(reset::Args),
    Status(status::Args),
    Report(report::Args),
    SupportBundle(support_bundle::Args),
    Inventory(inventory::Args),
    Seed(seed::Args),
    Identity(identity::Args),
    Completions(completions::Args),
    ManPages(man_pages::Args),
    Agent(agent::Args),
    Depot(depot::Args),
}

impl Cli {
    /// From the command line. Help is an error, as clap has it.
    pub fn read(arguments: &[OsString]) -> Result<Self, clap::Error> {
        let matches = command().try_get_matches_from(arguments)?;
        let mut cli = Self::from_arg_matches(&matches)?;
        // clap takes nested arguments for absent ones when nothing beside them is given.
        if cli.verb.is_none() {
            cli.create = Some(create::Args::from_arg_matches(&matches)?);
        }
        Ok(cli)
    }

    /// Whether the output is JSON for programs.
    pub fn json(&self) -> bool {
        match &self.verb {
            None => self.create.as_ref().is_some_and(|args| args.change.json),
            Some(Verb::Create(args)) => args.change.json,
            Some(Verb::AddNode(args)) => args.change.json,
            Some(Verb::Addons(args)) => args.json(),
            Some(Verb::DeleteNode(args)) => args.json,
            Some(Verb::Adopt(args)) => args.json,
            Some(Verb::Upgrade(args)) => args.change.json,
            Some(Verb::Drift(args)) => args.json,
            Some(Verb::Certs(args)) => args.json(),
            Some(Verb::Registry(args)) => args.json(),
            Some(Verb::Backup(args)) => args.json(),
            Some(Verb::Restore(args)) => args.json,
            Some(Verb::Preflight(args)) => args.json,
            Some(Verb::Plan(args)) => args.json,
            Some(Verb::Run(args)) => args.change.json,
            Some(Verb::Resume(args)) => args.json,
            Some(Verb::Rollback(args)) => args.json,
            Some(Verb::Reset(args)) => args.json,
            Some(Verb::Status(args)) => args.json,
            Some(Verb::Report(args)) => args.json,
            Some(Verb::SupportBundle(args)) => args.json,
            Some(Verb::Identity(args)) => args.json,
            Some(Verb::Seed(args)) => args.json,
            Some(Verb::Inventory(_) | Verb::Completions(_) | Verb::ManPages(_) | Verb::Agent(_) | Verb::Depot(_)) => {
                false
            }
        }
    }
}

/// The command line.
fn command() -> clap::Command {
    kubexm_terminal::reflowed(Cli::command())
}

/// Runs the verb.
pub fn run(cli: Cli, display: &Display) -> Result<(), Failure> {
    start::tls();
    start::logs(match &cli.verb {
        Some(Verb::Depot(_)) => "info",
        _ if cli.verbose => "info,kubexm=debug",
        _ => "off",
    });
    match (cli.verb, cli.create) {
        (Some(Verb::Create(args)), _) | (None, Some(args)) => create::run(&args, display),
        (Some(Verb::AddNode(args)), _) => add_node::run(&args, display),
        (Some(Verb::Addons(args)), _) => addons::run(&args, display),
        (Some(Verb::DeleteNode(args)), _) => delete_node::run(&args, display),
        (Some(Verb::Adopt(args)), _) => adopt::run(&args, display),
        (Some(Verb::Upgrade(args)), _) => upgrade::run(&args, display),
        (Some(Verb::Drift(args)), _) => drift::run(&args, display),
        (Some(Verb::Certs(args)), _) => certs::run(&args, display),
        (Some(Verb::Registry(args)), _) => registry::run(&args, display),
        (Some(Verb::Backup(args)), _) => backup::run(&args, display),
        (Some(Verb::Restore(args)), _) => restore::run(&args, display),
        (Some(Verb::Preflight(args)), _) => preflight::run(&args, display),
        (Some(Verb::Plan(args)), _) => plan::run(&args, display),
        (Some(Verb::Run(args)), _) => run::run(&args, display),
        (Some(Verb::Resume(args)), _) => resume::run(&args, display),
        (Some(Verb::Rollback(args)), _) => rollback::run(&args, display),
        (Some(Verb::Reset(args)), _) => reset::run(&args, display),
        (Some(Verb::Status(args)), _) => status::run(&args, display),
        (Some(Verb::Report(args)), _) => report::run(&args, display),
        (Some(Verb::Inventory(args)), _) => inventory::run(&args, display),
        (Some(Verb::Seed(args)), _) => seed::run(&args, display),
        (Some(Verb::Identity(args)), _) => identity::run(&args, display),
        (Some(Verb::Completions(args)), _) => completions::run(&args, command(), display),
        (Some(Verb::ManPages(args)), _) => man_pages::run(&args, command()),
        (Some(Verb::SupportBundle(args)), _) => support_bundle::run(&args, display),
        (Some(Verb::Agent(args)), _) => agent::run(&args, display),
        (Some(Verb::Depot(args)), _) => depot::run(&args),
        (None, None) => Err(Failure::new(ExitCode::Usage, "name a bundle with --bundle, or a verb; see --help")),
    }
}

#[cfg(test)]
mod tests {
    use kubexm_terminal::help_faults;

    #[test]
    fn no_help_is_wrapped_twice_or_wider_than_80_columns() {
        let faults = help_faults(&super::command(), 80);
        assert!(faults.is_empty(), "{faults:#?}");
    }
}
