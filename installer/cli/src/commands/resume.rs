//! `kubexm-install resume`.

use kubexm_engine::ClusterLock;
use kubexm_terminal::{Display, Failure};
use tokio_util::sync::CancellationToken;

use super::args::{BundleArgs, FailureArgs, HostArgs};
use crate::run::again::Again;
use crate::run::carry_out::Site;
use crate::run::chosen;
use crate::site::access::Access;
use crate::site::fleet::Fleet;
use crate::site::opened::Opened;
use crate::support::events::Shown;
use crate::support::home::Home;
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
    #[command(flatten)]
    failure: FailureArgs,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let shown = Shown(display);
    let opened = Opened::open(&args.bundle, &home, &shown)?;
    let cluster = home.cluster(&opened.cluster.name);
    let id = chosen::to_resume(&cluster, args.run.as_deref())?;
    let holder = start::holder("resume", &cluster.name);
    let _lock = ClusterLock::take(&cluster.folder, &cluster.name, &holder).map_err(failures::engine)?;
    let (run, plan, access) = Access::of_run(&opened, &home, &cluster.runs(), &id)?;
    args.failure.check(plan.plan())?;
    opened.verify(&home, &shown)?;
    let cancel = CancellationToken::new();
    let work = async {
        let but = (&opened, &access, plan.plan(), args.failure.max_failed_workers);
        let fleet = Fleet::connect_but(but, &home, &args.hosts, &holder, &shown).await?;
        fleet.keep(&shown).await;
        let again = Again { bundle: &args.bundle, hosts: &args.hosts, failure: &args.failure };
        let site = Site { opened: &opened, fleet: &fleet, home: &cluster, again, cancel: &cancel, display };
        let ended = site.carry_out(run, &plan).await;
        fleet.close().await;
        ended
    };
    start::runtime()?.block_on(interrupt::watched(&shown, &cancel, work))
}
