//! `kubexm-install run`.

use std::path::PathBuf;

use kubexm_plan::Op;
use kubexm_terminal::{Display, Failure};

use super::args::ChangeArgs;
use crate::run::begin::Begin;
use crate::run::consent::Consent;
use crate::site::opened::Opened;
use crate::site::plan_file;
use crate::support::events::Shown;
use crate::support::home::Home;

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
    pub change: ChangeArgs,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let consent = Consent::from_args(args.change.yes, display)?;
    let home = Home::from_environment()?;
    let shown = Shown(display);
    let opened = Opened::open(&args.change.bundle, &home, &shown)?;
    opened.check_closed_world()?;
    let access = args.change.access(&opened, &home, display)?;
    let plan = plan_file::read(&args.plan, &opened)?;
    let aside = plan.plan().steps.iter().flat_map(|step| &step.ops).any(|op| matches!(op, Op::MoveAside(_)));
    let opened = opened.setting_aside(aside);
    opened.verify(&home, &shown)?;
    let again = args.change.again();
    Begin { verb: "run", opened: &opened, access: &access, home: &home, again, consent, display }.run(|_, _| Ok(plan))
}
