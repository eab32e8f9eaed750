//! `kubexm-install addons list`.

use kubexm_session::Access;
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};

use crate::commands::args::{ClusterArgs, HostArgs};
use crate::render::addons;
use crate::terminal::Shell;

/// List the releases and add-ons that the cluster has, and what has drifted
///
/// Releases of helm are listed whoever installed them; `ours` says whether kubexm did. Of those, objects are compared with what was
/// installed. A control plane is asked; nothing is changed and no lock is taken; our agent is put on a host that has none for as long as
/// it takes.
///
/// Examples:
///   kubexm-install addons list -f cluster.yaml
///   kubexm-install addons list -f cluster.yaml --json | jq '.addons[] | select(.drifted != [])'
///   kubexm-install addons list -f cluster.yaml --exit-code     # 58 if an add-on is missing, has failed, or has drifted
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// End with 58 if an add-on of cluster.yaml is missing, or one of kubexm's has failed or drifted
    #[arg(long)]
    exit_code: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::looking(display)?;
    let (session, cluster, hosts) = (shell.session(), args.cluster.options(), args.hosts.options()?);
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let view = shell.wait(session.installed_addons(&source, &access, &hosts))?;
    let code = if args.exit_code && addons::differs(&view) { ExitCode::Drifted } else { ExitCode::Ok };
    match display.mode() {
        Mode::Json => display.answer(&addons::list_document(&view, code).to_string()),
        Mode::Terminal | Mode::Plain => display.answer(&addons::list_text(&view)),
    }
    match code {
        ExitCode::Ok => Ok(()),
        code => Err(Failure::silent(code)),
    }
}
