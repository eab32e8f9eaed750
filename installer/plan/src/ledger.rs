//! A record of a node's ledger: enough to roll back what was done there without the controller that did it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::StepId;
use crate::observed_state::ObservedState;
use crate::op::Op;
use crate::undo::Undo;

/// Version of the record's format. Version 2 lacks the cluster's id in stamps.
pub const SCHEMA: u32 = 3;

/// One line of `records.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// [`SCHEMA`] when written.
    pub schema: u32,
    /// Run id.
    pub run: String,
    /// Increases during a run; determines the order of a node's undo.
    pub sequence: u64,
    /// The step.
    pub step: StepId,
    /// Its ops as they were sent.
    pub ops: Vec<Op>,
    /// How the step is rolled back.
    pub undo: Undo,
    /// The state that each op found before the step's first change in this run.
    pub before: Vec<ObservedState>,
    /// How far the step got.
    pub outcome: Outcome,
}

/// How far a step got. `Begun` is written before the change, one of the others after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase", deny_unknown_fields)]
pub enum Outcome {
    /// The change may or may not have happened.
    Begun,
    /// Every op was converged.
    Done,
    /// An op failed.
    Failed {
        /// The error.
        text: String,
    },
    /// The earlier state was restored, in all three waves.
    Restored,
}

/// Records of steps that were started and have not been rolled back, in their order.
pub fn not_rolled_back<'a>(records: impl Iterator<Item = &'a Record> + Clone) -> impl Iterator<Item = &'a Record> {
    let last: BTreeMap<(&str, &StepId), &Outcome> =
        records.clone().map(|record| ((record.run.as_str(), &record.step), &record.outcome)).collect();
    records.filter(move |record| last.get(&(record.run.as_str(), &record.step)) != Some(&&Outcome::Restored))
}

/// Whether a step with such an op was started on this node and has not been rolled back.
pub fn any_not_rolled_back<'a>(records: impl Iterator<Item = &'a Record> + Clone, is_it: impl Fn(&Op) -> bool) -> bool {
    not_rolled_back(records).any(|record| record.ops.iter().any(&is_it))
}
