//! `kubexm-install plan`.

use std::path::PathBuf;

use kubexm_plan::CheckedPlan;
use kubexm_session::events::note;
use kubexm_session::{Access, Recipe, Unreachable, plan_file};
use kubexm_spec::Digest;
use kubexm_terminal::{Display, Failure, Mode};

use super::args::{AsideArgs, BundleArgs, CaArgs, HostArgs};
use super::upgrade::UpgradeArgs;
use crate::render::summary;
use crate::terminal::{Shell, output};

/// Write a plan: every step that would be taken, without taking any
///
/// The hosts are inspected, since a plan depends on what is found there; the agent is removed again afterwards.
/// The plan goes to standard output or to a file, for a person to read (--text) or for `run` to execute.
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
    #[command(flatten)]
    ca: CaArgs,
    #[command(flatten)]
    upgrade: UpgradeArgs,
    /// File for the plan [default: -, standard output]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file that is not a plan
    #[arg(long, requires = "output")]
    force: bool,
    /// Write the plan as text for people; without -o it is the default on a terminal
    #[arg(long)]
    text: bool,
    /// Print the plan as one JSON document on standard output
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
    /// Apply the add-ons of cluster.yaml to the cluster
    AddonsApply,
    /// Bring the cluster to the bundle's Kubernetes version
    Upgrade,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    if let Some(path) = &args.output {
        kubexm_files::check(path, &output::PLAN, args.force)?;
    }
    let shell = Shell::looking(display)?;
    let (session, bundle, hosts) = (shell.session(), args.bundle.options(), args.hosts.options()?);
    let opened = session.open(&bundle)?.setting_aside(args.aside.set_aside);
    let upgrade = args.upgrade.options();
    let recipe = match args.pipeline {
        Planned::Create => Recipe::Create,
        Planned::AddNode => Recipe::AddNode(&[]),
        Planned::AddonsApply => Recipe::AddonsApply(&[]),
        Planned::Upgrade => Recipe::Upgrade(&upgrade),
    };
    let opened = opened.with_new_registry_ca(args.ca.new_registry_ca).for_pipeline(recipe.pipeline());
    let opened = opened.comparing_packages(args.pipeline == Planned::Upgrade && upgrade.os_packages);
    opened.check_remembered(&session)?;
    opened.check_closed_world()?;
    let access = Access::obtain(&session, opened.cluster(), &bundle.trust, &hosts)?;
    let (plan, drift) = shell.wait(async {
        let observed = session.observe("plan", opened, &access, &hosts, Unreachable::Refused("")).await?;
        let checked = observed.plan(recipe).await?.check().await?;
        let drift = checked.drift().await;
        let plan = checked.leave().await;
        Ok((plan, drift?))
    })?;
    if let Some(drift) = &drift {
        summary::differences(plan.plan(), drift).lines().for_each(|line| note(shell.events(), line));
    }
    give(args, &plan, display, shell.events())
}

fn give(
    args: &Args,
    plan: &CheckedPlan,
    display: &Display,
    events: &dyn kubexm_engine::EventSink,
) -> Result<(), Failure> {
    let plan = plan.plan();
    let mut digest = None;
    match &args.output {
        Some(path) => {
            let content = if args.text { summary::long(plan).into_bytes() } else { plan_file::to_json(plan)? };
            let stdout = |content: &[u8]| {
                display.give(content);
            };
            kubexm_files::put(path, &output::PLAN, args.force, &content, &stdout)?;
            digest = (!args.text).then(|| Digest::of(&content));
        }
        None if args.text || display.mode() == Mode::Terminal => display.answer(&summary::long(plan)),
        None => display.answer(&String::from_utf8_lossy(&plan_file::to_json(plan)?)),
    }
    if let Some(path) = args.output.as_ref().filter(|path| !kubexm_files::is_stdout(path)) {
        let digest =
            digest.map(|digest| format!("; `run` shows its digest before it asks: {digest}")).unwrap_or_default();
        note(events, format!("{} steps in {}{digest}", plan.steps.len(), path.display()));
    }
    Ok(())
}
