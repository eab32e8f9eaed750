//! `kubexm-install run`.

use std::path::PathBuf;

use kubexm_plan::Op;
use kubexm_session::{Access, Unreachable, plan_file};
use kubexm_terminal::{Display, Failure};

use super::args::ChangeArgs;
use super::resume_command::Again;
use crate::render::ended;
use crate::terminal::Shell;

/// Execute a plan that was made, and perhaps reviewed, before
///
/// The plan must belong to this bundle and cluster.yaml (else exit 61). The hosts are inspected again first.
/// No signature covers a plan file, whoever signed the bundle: its SHA-256 is shown before the question, and must be
/// the one that `plan create -o` printed. Do not run a plan that came with a bundle.
///
/// Examples:
///   kubexm-install plan create --bundle site.tar.zst -o plan.json
///   kubexm-install run plan.json --bundle site.tar.zst
///   kubexm-install run plan.json --bundle site.tar.zst -y --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The plan that `plan create -o` wrote
    plan: PathBuf,
    #[command(flatten)]
    pub change: ChangeArgs,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let Args { plan, change: args } = args;
    let shell = Shell::changing(display, args.yes)?;
    let (session, bundle, hosts) = (shell.session(), args.bundle.options(), args.hosts.options()?);
    let again = Again { bundle: &args.bundle, hosts: &args.hosts, failure: &args.failure };
    let opened = session.open(&bundle)?.without_fan_out(args.failure.no_fan_out);
    opened.check_remembered(&session)?;
    opened.check_closed_world()?;
    let plan = plan_file::read(plan, &opened)?;
    shell.check_can_confirm()?;
    let access = Access::obtain(&session, opened.cluster(), &bundle.trust, &hosts)?;
    let steps = plan.plan.plan();
    let aside = steps.steps.iter().flat_map(|step| &step.ops).any(|op| matches!(op, Op::MoveAside(_)));
    let verified = opened.setting_aside(aside).for_pipeline(steps.pipeline).verify(&session)?;
    let options = args.failure.options(&again);
    let ended = shell.wait(async {
        let observed = session.observe("run", verified, &access, &hosts, Unreachable::Refused("")).await?;
        observed.reviewed(plan).await?.start(options).await?.finish().await
    })?;
    ended::report(&ended, "", display)
}
