//! `kubexm-install plan`.

use std::path::PathBuf;

use kubexm_engine::EventSink;
use kubexm_engine::events::Silent;
use kubexm_plan::CheckedPlan;
use kubexm_terminal::{Display, Failure, Mode};
use tokio_util::sync::CancellationToken;

use super::args::{AsideArgs, BundleArgs, HostArgs};
use crate::site::access::Access;
use crate::site::fleet::Fleet;
use crate::site::opened::Opened;
use crate::site::{plan_file, planning, summary};
use crate::support::events::{Shown, note};
use crate::support::home::Home;
use crate::support::{interrupt, output, start};

/// Write down every step that would be taken, and take none
///
/// The hosts are looked at, since a plan depends on what is found there; our agent is taken away again afterwards.
/// The plan goes to standard output or to a file, for a person to read (--text) or for `run` to carry out.
///
/// Examples:
///   kubexm-install plan create --bundle site.tar.zst --text
///   kubexm-install plan create --bundle site.tar.zst -o plan.json
///   kubexm-install run plan.json --bundle site.tar.zst
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// What to plan
    #[arg(value_enum)]
    pipeline: Planned,
    #[command(flatten)]
    bundle: BundleArgs,
    #[command(flatten)]
    hosts: HostArgs,
    #[command(flatten)]
    aside: AsideArgs,
    /// File for the plan [default: -, standard output]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file that is not a plan
    #[arg(long, requires = "output")]
    force: bool,
    /// As text for people; without -o it is the default on a terminal
    #[arg(long)]
    text: bool,
    /// The plan as one JSON document on standard output
    #[arg(long, conflicts_with_all = ["text", "output"])]
    pub json: bool,
}

/// The pipelines that a bundle is planned with: `reset` has no bundle and asks on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Planned {
    /// Make a cluster
    Create,
    /// Add the hosts of cluster.yaml that are not in the cluster yet
    AddNode,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shown = Shown(display);
    let events: &dyn EventSink = if display.mode() == Mode::Json { &Silent } else { &shown };
    if let Some(path) = &args.output {
        output::check(path, &output::PLAN, args.force)?;
    }
    let home = Home::from_environment()?;
    let opened = Opened::open(&args.bundle, &home, events)?.setting_aside(args.aside.set_aside);
    opened.check_closed_world()?;
    let access = Access::obtain(&opened.cluster, &args.bundle.trust, &args.hosts, &home, display, events)?;
    let holder = start::holder("plan", &opened.cluster.name);
    let cancel = CancellationToken::new();
    let work = async {
        let fleet = Fleet::connect((&opened, &access), &home, &args.hosts, &holder, events).await?;
        let planned = async {
            interrupt::check(&cancel)?;
            let seen = planning::look(&opened, &fleet, events).await?;
            match args.pipeline {
                Planned::Create => planning::create(&opened, seen, &home, events),
                Planned::AddNode => planning::add_nodes(&opened, seen, &[], &home, events),
            }
        };
        let planned = planned.await;
        fleet.withdraw(events).await;
        planned
    };
    let plan = start::runtime()?.block_on(interrupt::watched(events, &cancel, work))?;
    give(args, &plan, display, events)
}

fn give(args: &Args, plan: &CheckedPlan, display: &Display, events: &dyn EventSink) -> Result<(), Failure> {
    let plan = plan.plan();
    match &args.output {
        Some(path) => {
            let content = if args.text { summary::long(plan).into_bytes() } else { plan_file::to_json(plan)? };
            output::put(path, &output::PLAN, args.force, &content, display)?;
        }
        None if args.text || display.mode() == Mode::Terminal => display.answer(&summary::long(plan)),
        None => display.answer(&String::from_utf8_lossy(&plan_file::to_json(plan)?)),
    }
    if let Some(path) = args.output.as_ref().filter(|path| !kubexm_files::is_stdout(path)) {
        note(events, format!("{} steps in {}", plan.steps.len(), path.display()));
    }
    Ok(())
}
