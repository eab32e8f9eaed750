//! `kubexm-install rollback`.

use kubexm_engine::ClusterLock;
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure};
use tokio_util::sync::CancellationToken;

use super::args::{BundleArgs, FailureArgs, HostArgs, Unreachable};
use crate::run::again::Again;
use crate::run::carry_out::Site;
use crate::run::chosen;
use crate::run::consent::Consent;
use crate::site::access::Access;
use crate::site::fleet::Fleet;
use crate::site::opened::Opened;
use crate::support::events::{self, Shown};
use crate::support::home::Home;
use crate::support::{failures, interrupt, start};

/// Take back what a run has changed: services stop, files come back, services start again
///
/// A run that failed or was interrupted can be taken back, and one that ended well when it is named; one whose rollback was
/// cut off, or got stuck, goes on where it was. What is not of this run stays. After the rollback of a first create the
/// cluster is gone, with its data.
///
/// Examples:
///   kubexm-install rollback --bundle site.tar.zst                       # the cluster's last run
///   kubexm-install rollback 20261120T081502Z-4f1c --bundle site.tar.zst -y
///   kubexm-install rollback --bundle site.tar.zst --unreachable skip    # a host is gone: the others, whole
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Run id, as `status` shows it [default: the cluster's last run]
    run: Option<String>,
    #[command(flatten)]
    bundle: BundleArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// What becomes of hosts that cannot be reached, now or later: those that are skipped stay as they are, and the run stays
    /// stuck (exit code 71) until it is taken back again with them
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    unreachable: Unreachable,
    /// Say yes without being asked
    #[arg(short = 'y', long)]
    yes: bool,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let consent = Consent::from_args(args.yes, display)?;
    let home = Home::from_environment()?;
    let shown = Shown(display);
    let opened = Opened::open(&args.bundle, &home, &shown)?;
    let cluster = home.cluster(&opened.cluster.name);
    let id = chosen::to_take_back(&cluster, args.run.as_deref(), false)?;
    let holder = start::holder("rollback", &cluster.name);
    let _lock = ClusterLock::take(&cluster.folder, &cluster.name, &holder).map_err(failures::engine)?;
    let (run, plan, access) = Access::of_run(&opened, &home, &cluster.runs(), &id)?;
    let cancel = CancellationToken::new();
    let failure = FailureArgs::default();
    let again = Again { bundle: &args.bundle, hosts: &args.hosts, failure: &failure };
    let work = async {
        let changed = run.replay().steps.values().filter(|story| story.changed()).count();
        let hosts: Vec<&str> = plan.plan().hosts.iter().map(|host| host.name.as_str()).collect();
        events::note(
            &shown,
            format!(
                "{} of cluster {}: {changed} steps changed something on {}",
                run.id(),
                cluster.name,
                hosts.join(", ")
            ),
        );
        let provenance = Some(&opened.provenance);
        consent.have("Take it all back? What the cluster holds is lost.", provenance, display).await?;
        let fleet = match args.unreachable {
            Unreachable::Refuse => {
                Fleet::connect((&opened, &access), &home, &args.hosts, &holder, &shown).await.map_err(hint)?
            }
            Unreachable::Skip => {
                Fleet::connect_without_gone((&opened, &access), &home, &args.hosts, &holder, &shown).await?
            }
        };
        fleet.keep(&shown).await;
        let site = Site { opened: &opened, fleet: &fleet, home: &cluster, again, cancel: &cancel, display };
        let ended = site.take_back(run, &plan, args.unreachable == Unreachable::Skip).await;
        fleet.close().await;
        ended
    };
    start::runtime()?.block_on(interrupt::watched(&shown, &cancel, work))
}

/// What helps where a host is gone for good.
fn hint(failure: Failure) -> Failure {
    if failure.code != ExitCode::HostUnreachable {
        return failure;
    }
    let text = "\nnothing was changed; --unreachable skip takes the others back and leaves these as they are";
    Failure { text: failure.text.clone() + text, ..failure }
}
