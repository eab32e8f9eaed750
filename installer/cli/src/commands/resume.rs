//! `kubexm-install resume`.

use kubexm_terminal::{Display, Failure};

use super::args::{BundleArgs, FailureArgs, HostArgs};
use super::resume_command::Again;
use crate::render::ended;
use crate::terminal::Shell;

/// Continue with a run that failed, was interrupted, or whose program died
///
/// It was confirmed when it started, so nothing is asked. What is already in place is not changed; an action that is
/// still running on a host is waited for, not started again.
///
/// Examples:
///   kubexm-install resume --bundle site.tar.zst                       # the cluster's last run
///   kubexm-install resume 20261120T081502Z-4f1c --bundle site.tar.zst
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
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
    let (session, hosts) = (shell.session(), args.hosts.options());
    let again = Again { bundle: &args.bundle, hosts: &args.hosts, failure: &args.failure };
    let options = args.failure.options(&again);
    let loaded = session.run_to_resume(session.open(&args.bundle.options())?, args.run.as_deref())?;
    options.check(loaded.plan().plan())?;
    let verified = loaded.verify()?;
    let ended = shell.wait(async { verified.resume(&hosts, options).await?.finish().await })?;
    ended::report(&ended, "", display)
}
