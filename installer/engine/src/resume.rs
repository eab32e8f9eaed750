//! Continues a run from its folder, which contains everything that is needed.
//!
//! Execution is the same as for a new run: [`execute`] observes every step again, [`roll_back`] undoes the changes in
//! the journal. This module only checks that the folder, the cluster and the bundle belong together.

use std::path::Path;

use crate::events::EventSink;
use crate::execute::{ExecuteOptions, Links, Outcome, execute, roll_back};
use crate::link::BlobSource;
use crate::run::{Belongs, Run, RunId};
use crate::slots::SlotSource;
use crate::{EngineError, Status, status};

/// Loads a run and executes its plan. Returns how it ended, and its folder.
#[expect(clippy::too_many_arguments, reason = "the arguments of execute, and where the run lies")]
pub async fn resume(
    runs: &Path,
    id: &RunId,
    belongs: Belongs,
    links: &Links,
    slots: &dyn SlotSource,
    blobs: &dyn BlobSource,
    events: &dyn EventSink,
    options: ExecuteOptions,
) -> Result<(Outcome, Status), EngineError> {
    let (mut run, plan) = Run::load(runs, id, belongs)?;
    let outcome = execute(&plan, links, &mut run, slots, blobs, events, options).await?;
    Ok((outcome, status::of(id.as_str(), plan.plan(), run.replay())))
}

/// Loads a run and rolls it back. Returns how it ended, and its folder; [`Outcome::RolledBack`] is the success.
pub async fn rollback(
    runs: &Path,
    id: &RunId,
    belongs: Belongs,
    links: &Links,
    events: &dyn EventSink,
    options: ExecuteOptions,
) -> Result<(Outcome, Status), EngineError> {
    let (mut run, plan) = Run::load(runs, id, belongs)?;
    let outcome = roll_back(&plan, links, &mut run, events, options).await?;
    Ok((outcome, status::of(id.as_str(), plan.plan(), run.replay())))
}
