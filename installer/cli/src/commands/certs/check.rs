//! `kubexm-install certs check`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kubexm_session::Access;
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};

use super::length::length;
use crate::commands::args::{ClusterArgs, HostArgs};
use crate::render::certificates::Checked;
use crate::terminal::Shell;

/// Show every certificate of every host, and when it ends
///
/// Those of kubeadm, etcd, kubelet, the depot and the registry, and those inside kubeconfigs; the first to end comes first. The
/// files of the hosts are read, so it also works when the API server does not answer since its certificate has ended. Nothing is
/// changed and no lock is taken; our agent is put on a host that has none for as long as it takes.
///
/// The exit code is 56 if a certificate ends within --within or has ended; otherwise 50 if a host or a file could not be read.
///
/// Examples:
///   kubexm-install certs check -f cluster.yaml
///   kubexm-install certs check -f cluster.yaml --within 30d
///   kubexm-install certs check -f cluster.yaml --json | jq '.certificates[] | select(.state != "valid")'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// What counts as soon: days (30d), hours (36h) or seconds [default: 90d; with a
    /// certificateValidityPeriod of less than a year, a quarter of it less 30h]
    #[arg(long, value_name = "TIME", value_parser = length)]
    within: Option<i64>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::looking(display)?;
    let (session, cluster, hosts) = (shell.session(), args.cluster.options(), args.hosts.options()?);
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let view = shell.wait(session.view(&source, &access, &hosts))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let within = args.within.unwrap_or_else(|| source.cluster().certificate_validity().soon_s());
    let checked = Checked::of(&view, now, within);
    match display.mode() {
        Mode::Json => display.answer(&checked.document().to_string()),
        Mode::Terminal | Mode::Plain => display.answer(&checked.text()),
    }
    match checked.exit_code() {
        ExitCode::Ok => Ok(()),
        code => Err(Failure::silent(code)),
    }
}
