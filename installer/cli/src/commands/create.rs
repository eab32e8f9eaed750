//! `kubexm-install create`, and what the program does without a verb.

use kubexm_engine::{ClusterLock, Run, RunId};
use kubexm_terminal::{Display, Failure};
use tokio_util::sync::CancellationToken;

use super::args::{BundleArgs, HostArgs, OnFailure};
use crate::run::carry_out::{Site, resume_command};
use crate::run::consent::Consent;
use crate::site::fleet::Fleet;
use crate::site::opened::Opened;
use crate::site::planning;
use crate::support::events::Shown;
use crate::support::home::Home;
use crate::support::{failures, interrupt, start};

/// Make a cluster of the bundle: verify, look at the hosts, plan, ask, install
///
/// Nothing but our agent is put on a host before you say yes, and a no takes it away again. A second create changes
/// nothing that holds already.
///
/// Examples:
///   kubexm-install create --bundle site.tar.zst
///   kubexm-install create --bundle site.tar.zst -f cluster.yaml --accept-new-host-keys -y
///   kubexm-install create --bundle site.tar.zst -y --json | jq -c 'select(.type == "step-ended")'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    pub bundle: BundleArgs,
    #[command(flatten)]
    pub hosts: HostArgs,
    /// Say yes without being asked
    #[arg(short = 'y', long)]
    pub yes: bool,
    /// When a step fails
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub on_failure: OnFailure,
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
    opened.verify(&home, &shown)?;
    let cluster = home.cluster(&opened.cluster.name);
    let holder = start::holder("create", &cluster.name);
    let _lock = ClusterLock::take(&cluster.folder, &cluster.name, &holder).map_err(failures::engine)?;
    let cancel = CancellationToken::new();
    let work = async {
        let fleet = Fleet::connect(&opened, &home, &args.hosts, &holder, &shown).await?;
        let decided = async {
            interrupt::check(&cancel)?;
            let facts = planning::look(&opened, &fleet, &shown).await?;
            let plan = planning::create(&opened, &facts, &shown)?;
            interrupt::check(&cancel)?;
            planning::show(plan.plan(), display);
            consent.have("Go on?", display).await?;
            interrupt::check(&cancel)?;
            Run::create(&cluster.runs(), RunId::new(), &plan).map(|run| (run, plan)).map_err(failures::engine)
        };
        let (run, plan) = fleet.unless_refused(decided, &shown).await?;
        let command = resume_command(run.id().as_str(), &args.bundle, &args.hosts);
        let site = Site { opened: &opened, fleet: &fleet, home: &cluster, cancel: &cancel, display };
        let ended = site.carry_out(run, &plan, command).await;
        fleet.close().await;
        ended
    };
    start::runtime()?.block_on(interrupt::watched(&shown, &cancel, work))
}
