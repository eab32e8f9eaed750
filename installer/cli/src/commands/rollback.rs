//! `kubexm-install rollback`.

use kubexm_session::Direction;
use kubexm_terminal::{Display, Failure};

use super::args::{BundleArgs, FailureArgs, HostArgs, Unreachable};
use super::recorded::Inputs;
use super::resume_command::Again;
use crate::render::ended;
use crate::terminal::Shell;

/// Roll back what a run has changed: services are stopped, files restored, services started again
///
/// A run that failed or was interrupted can be rolled back, and one that succeeded if it is named; one whose rollback
/// was interrupted, or got stuck, continues where it was. What other runs changed stays. The rollback of a first create
/// removes the cluster, with its data.
///
/// Without --bundle it is the run that `status` shows, with the bundle and cluster.yaml that it was started with.
///
/// Examples:
///   kubexm-install rollback                                             # the last run, as it was started
///   kubexm-install rollback 20261120T081502Z-4f1c --bundle site.tar.zst -y
///   kubexm-install rollback --unreachable skip                          # a host is gone: the others, whole
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, mut_arg("bundle", BundleArgs::recorded))]
pub struct Args {
    /// Run id, as `status` shows it [default: the cluster's last run]
    run: Option<String>,
    #[command(flatten)]
    bundle: BundleArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// What to do with hosts that cannot be reached, now or later: those that are skipped stay as they are, and the run
    /// stays stuck (exit code 71) until it is rolled back again with them
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    unreachable: Unreachable,
    /// Confirm without being asked
    #[arg(short = 'y', long)]
    yes: bool,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::changing(display, args.yes)?;
    let (session, failure, direction) = (shell.session(), FailureArgs::default(), Direction::Back);
    let typed = (&args.bundle, &args.hosts, &failure);
    let inputs = Inputs::of(session.home, direction, args.run.as_deref(), typed, session.events)?;
    let hosts = inputs.hosts.options()?;
    let again = Again { bundle: &inputs.bundle, hosts: &inputs.hosts, failure: &failure };
    let options = failure.options(&again);
    let loaded = session.run_to_roll_back(session.open(&inputs.bundle.options())?, inputs.run.as_deref());
    let loaded = loaded.map_err(|error| inputs.explain(direction, error))?;
    shell.check_can_confirm()?;
    let skip = args.unreachable == Unreachable::Skip;
    let ended = shell.wait(loaded.roll_back(&hosts, &options, skip))?;
    ended::report(&ended, "", display)
}
