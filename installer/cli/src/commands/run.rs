//! `kubexm-install run`.

use std::path::PathBuf;

use kubexm_engine::{ClusterLock, Run, RunId};
use kubexm_terminal::{Display, Failure};
use tokio_util::sync::CancellationToken;

use super::args::{BundleArgs, HostArgs, OnFailure};
use crate::run::carry_out::{Site, resume_command};
use crate::run::consent::Consent;
use crate::site::fleet::Fleet;
use crate::site::opened::Opened;
use crate::site::{plan_file, planning};
use crate::support::events::Shown;
use crate::support::home::Home;
use crate::support::{failures, interrupt, start};

/// Carry out a plan that was made, and perhaps reviewed, before
///
/// The plan must belong to this bundle and cluster.yaml (else exit 61). The hosts are looked at again first.
///
/// Examples:
///   kubexm-install plan create --bundle site.tar.zst -o plan.json
///   kubexm-install run plan.json --bundle site.tar.zst
///   kubexm-install run plan.json --bundle site.tar.zst -y --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// What `plan create -o` wrote
    plan: PathBuf,
    #[command(flatten)]
    bundle: BundleArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// Say yes without being asked
    #[arg(short = 'y', long)]
    yes: bool,
    /// When a step fails
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    on_failure: OnFailure,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    args.on_failure.check()?;
    let consent = Consent::from_args(args.yes, display)?;
    let home = Home::from_environment()?;
    let shown = Shown(display);
    let opened = Opened::open(&args.bundle, &shown)?;
    opened.check_closed_world()?;
    let plan = plan_file::read(&args.plan, &opened)?;
    opened.verify(&home, &shown)?;
    let cluster = home.cluster(&opened.cluster.name);
    let holder = start::holder("run", &cluster.name);
    let _lock = ClusterLock::take(&cluster.folder, &cluster.name, &holder).map_err(failures::engine)?;
    let cancel = CancellationToken::new();
    let work = async {
        let fleet = Fleet::connect(&opened, &home, &args.hosts, &holder, &shown).await?;
        let decided = async {
            interrupt::check(&cancel)?;
            planning::look(&opened, &fleet, &shown).await?;
            interrupt::check(&cancel)?;
            planning::show(plan.plan(), display);
            consent.have("Go on?", display).await?;
            interrupt::check(&cancel)?;
            Run::create(&cluster.runs(), RunId::new(), &plan).map_err(failures::engine)
        };
        let run = fleet.unless_refused(decided, &shown).await?;
        let command = resume_command(run.id().as_str(), &args.bundle, &args.hosts);
        let site = Site { opened: &opened, fleet: &fleet, home: &cluster, cancel: &cancel, display };
        let ended = site.carry_out(run, &plan, command).await;
        fleet.close().await;
        ended
    };
    start::runtime()?.block_on(interrupt::watched(&shown, &cancel, work))
}
