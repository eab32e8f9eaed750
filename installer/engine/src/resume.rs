//! Continues with a run from its folder: everything it needs to know lies there.
//!
//! There is no second way of carrying out: [`execute`] looks at every step again, [`roll_back`] at what the journal has
//! as changed. This module only makes sure that the folder, the cluster and the bundle belong together.

use std::path::Path;

use crate::events::EventSink;
use crate::execute::{ExecuteOptions, Links, Outcome, execute, roll_back};
use crate::link::BlobSource;
use crate::run::{Belongs, Run, RunId};
use crate::slots::SlotSource;
use crate::{EngineError, Status, status};

/// Loads a run and carries its plan on. Returns how it ended and where it is.
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

/// Loads a run and rolls it back. Returns how it ended and where it is; [`Outcome::RolledBack`] is the success.
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
