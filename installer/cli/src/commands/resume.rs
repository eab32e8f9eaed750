//! `kubexm-install resume`.

use kubexm_session::Direction;
use kubexm_terminal::{Display, Failure};

use super::args::{BundleArgs, FailureArgs, HostArgs};
use super::recorded::Inputs;
use super::resume_command::Again;
use crate::render::ended;
use crate::terminal::Shell;

/// Continue with a run that failed, was interrupted, or whose program died
///
/// It was confirmed when it started, so nothing is asked. What is already in place is not changed; an action that is
/// still running on a host is waited for, not started again.
///
/// Without --bundle it is the run that `status` shows, with the bundle, cluster.yaml and options that it was started
/// with.
///
/// Examples:
///   kubexm-install resume                                             # the last run, as it was started
///   kubexm-install resume --bundle /media/usb/site.tar.zst            # the bundle is somewhere else now
///   kubexm-install resume 20261120T081502Z-4f1c
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, mut_arg("bundle", BundleArgs::recorded))]
pub struct Args {
    /// Run id, as `status` shows it [default: the cluster's last run]
    run: Option<String>,
    #[command(flatten)]
    bundle: BundleArgs,
    #[command(flatten)]
    hosts: HostArgs,
    #[command(flatten)]
    failure: FailureArgs,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::resuming(display)?;
    let (session, direction) = (shell.session(), Direction::Forward);
    let typed = (&args.bundle, &args.hosts, &args.failure);
    let inputs = Inputs::of(session.home, direction, args.run.as_deref(), typed, session.events)?;
    let hosts = inputs.hosts.options()?;
    let again = Again { bundle: &inputs.bundle, hosts: &inputs.hosts, failure: &inputs.failure };
    let options = inputs.failure.options(&again);
    let loaded = session.run_to_resume(session.open(&inputs.bundle.options())?, inputs.run.as_deref());
    let loaded = loaded.map_err(|error| inputs.explain(direction, error))?;
    options.check(loaded.plan().plan())?;
    let verified = loaded.verify()?;
    let ended = shell.wait(async { verified.resume(&hosts, options).await?.finish().await })?;
    ended::report(&ended, "", display)
}
