//! `kubexm-install preflight`.

use kubexm_engine::EventSink;
use kubexm_engine::events::Silent;
use kubexm_terminal::{Display, Failure, Mode};
use tokio_util::sync::CancellationToken;

use super::args::{AsideArgs, BundleArgs, HostArgs};
use crate::site::access::Access;
use crate::site::fleet::Fleet;
use crate::site::opened::Opened;
use crate::site::planning;
use crate::support::events::Shown;
use crate::support::home::Home;
use crate::support::{interrupt, start};

/// Look whether the hosts can become the cluster, and change nothing
///
/// All problems of all hosts are told together (exit 53). Our agent is put on each host for the time of the look; it
/// listens on the cluster's ports while the agents of the other hosts dial them, and blocked pairs are listed as a
/// firewall ticket needs them.
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
    let shown = Shown(display);
    let events: &dyn EventSink = if display.mode() == Mode::Json { &Silent } else { &shown };
    let home = Home::from_environment()?;
    let opened = Opened::open(&args.bundle, &home, events)?.setting_aside(args.aside.set_aside);
    opened.check_closed_world()?;
    let access = Access::obtain(&opened.cluster, &args.bundle.trust, &args.hosts, &home, display, events)?;
    let holder = start::holder("preflight", &opened.cluster.name);
    let cancel = CancellationToken::new();
    let work = async {
        let fleet = Fleet::connect((&opened, &access), &home, &args.hosts, &holder, events).await?;
        let examined = planning::examine(&opened, &fleet, events).await;
        fleet.withdraw(events).await;
        interrupt::check(&cancel)?;
        examined
    };
    let (_, findings) = start::runtime()?.block_on(interrupt::watched(events, &cancel, work))?;
    if findings.failures().next().is_some() {
        return Err(planning::not_fit(&opened, &findings));
    }
    match display.mode() {
        Mode::Json => display.answer(&findings.document(&opened.cluster.name).to_string()),
        Mode::Terminal | Mode::Plain => display.answer(&findings.table()),
    }
    Ok(())
}
