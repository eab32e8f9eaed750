//! `kubexm-install preflight`.

use kubexm_session::{Access, Unreachable};
use kubexm_terminal::{Display, Failure, Mode};

use super::args::{AsideArgs, BundleArgs, HostArgs};
use crate::terminal::Shell;

/// Check whether the hosts can become the cluster, and change nothing
///
/// All problems of all hosts are reported together (exit 53). An agent is put on each host during the check; it listens
/// on the cluster's ports while the agents of the other hosts connect to them, and blocked pairs are listed as a
/// firewall request needs them.
///
/// Examples:
///   kubexm-install preflight --bundle site.tar.zst
///   kubexm-install preflight --bundle site.tar.zst -f cluster.yaml --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    bundle: BundleArgs,
    #[command(flatten)]
    hosts: HostArgs,
    #[command(flatten)]
    aside: AsideArgs,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::looking(display)?;
    let (session, bundle, hosts) = (shell.session(), args.bundle.options(), args.hosts.options()?);
    let opened = session.open(&bundle)?.setting_aside(args.aside.set_aside);
    opened.check_remembered(&session)?;
    opened.check_closed_world()?;
    let access = Access::obtain(&session, opened.cluster(), &bundle.trust, &hosts)?;
    let survey = shell.wait(async {
        let refused = Unreachable::Refused("");
        session.observe("preflight", opened, &access, &hosts, refused).await?.with_authorities().leave().await
    })?;
    let findings = survey.findings();
    findings.check()?;
    match display.mode() {
        Mode::Json => display.answer(&findings.document().to_string()),
        Mode::Terminal | Mode::Plain => display.answer(&findings.table()),
    }
    Ok(())
}
