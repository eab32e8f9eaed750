//! `kubexm-install resume`.

use kubexm_engine::replay::RunState;
use kubexm_engine::{ClusterLock, Run, RunId};
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure};
use tokio_util::sync::CancellationToken;

use super::args::{BundleArgs, HostArgs};
use crate::run::carry_out::{Site, resume_command};
use crate::site::fleet::Fleet;
use crate::site::opened::Opened;
use crate::support::events::Shown;
use crate::support::home::{ClusterHome, Home};
use crate::support::{failures, interrupt, start};

/// Go on with a run that failed, was interrupted, or whose program died
///
/// It was said yes to when it began, so nothing is asked. What holds already is left alone; an action that was under
/// way on a host is waited for, not begun again.
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
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let shown = Shown(display);
    let opened = Opened::open(&args.bundle, &shown)?;
    let cluster = home.cluster(&opened.cluster.name);
    let id = find(&cluster, args.run.as_deref())?;
    let holder = start::holder("resume", &cluster.name);
    let _lock = ClusterLock::take(&cluster.folder, &cluster.name, &holder).map_err(failures::engine)?;
    let (run, plan) = Run::load(&cluster.runs(), &id, opened.belongs()).map_err(failures::engine)?;
    opened.verify(&home, &shown)?;
    let cancel = CancellationToken::new();
    let work = async {
        let fleet = Fleet::connect(&opened, &home, &args.hosts, &holder, &shown).await?;
        fleet.keep(&shown).await;
        let command = resume_command(id.as_str(), &args.bundle, &args.hosts);
        let site = Site { opened: &opened, fleet: &fleet, home: &cluster, cancel: &cancel, display };
        let ended = site.carry_out(run, &plan, command).await;
        fleet.close().await;
        ended
    };
    start::runtime()?.block_on(interrupt::watched(&shown, &cancel, work))
}

/// The named run, or the last one. An older run that another one has overtaken is gone on with only when it is named.
fn find(cluster: &ClusterHome, named: Option<&str>) -> Result<RunId, Failure> {
    let runs = cluster.run_ids()?;
    let known = || Failure::new(ExitCode::Usage, none_to_resume(cluster, named));
    match named {
        Some(name) => runs.into_iter().find(|id| id.as_str() == name).ok_or_else(known),
        None => {
            let last = runs.into_iter().next_back().ok_or_else(known)?;
            let status = kubexm_engine::run::read_status(&cluster.runs(), &last).map_err(failures::engine)?;
            match status.state {
                RunState::Succeeded => Err(Failure::new(
                    ExitCode::Usage,
                    format!(
                        "the last run of cluster {}, {last}, has succeeded: there is nothing to go on with",
                        cluster.name
                    ),
                )),
                _ => Ok(last),
            }
        }
    }
}

fn none_to_resume(cluster: &ClusterHome, named: Option<&str>) -> String {
    match named {
        Some(name) => format!("cluster {} has no run {name}; `kubexm-install status` lists its runs", cluster.name),
        None => format!(
            "cluster {} has no run in {}; `kubexm-install --bundle FILE` begins one",
            cluster.name,
            cluster.runs().display()
        ),
    }
}
