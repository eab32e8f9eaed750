//! `kubexm-install registry list`.

use kubexm_session::Access;
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};

use crate::commands::args::{ClusterArgs, HostArgs};
use crate::render::registry;
use crate::terminal::Shell;

/// List the bundles that the cluster's registry serves
///
/// Each create and upgrade with another bundle adds one; `kubexm-install registry prune` removes those that nobody needs any more. What a
/// bundle has alone is what its removal would free. The registry hosts are asked; nothing is changed and no lock is taken; our agent is
/// put on a host that has none for as long as it takes.
///
/// The exit code is 50 if a registry host could not be read.
///
/// Examples:
///   kubexm-install registry list -f cluster.yaml
///   kubexm-install registry list -f cluster.yaml --json | jq -r '.bundles[].name'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::looking(display)?;
    let (session, cluster, hosts) = (shell.session(), args.cluster.options(), args.hosts.options()?);
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let view = shell.wait(session.registry_bundles(&source, &access, &hosts))?;
    let code = if view.gaps.is_empty() { ExitCode::Ok } else { ExitCode::HostUnreachable };
    match display.mode() {
        Mode::Json => display.answer(&registry::document(&view, code).to_string()),
        Mode::Terminal | Mode::Plain => display.answer(&registry::text(&view)),
    }
    match code {
        ExitCode::Ok => Ok(()),
        code => Err(Failure::silent(code)),
    }
}
