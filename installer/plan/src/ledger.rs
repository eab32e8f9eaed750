//! A record of a node's ledger: enough to roll back what was done there, without the controller that did it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::StepId;
use crate::observed_state::ObservedState;
use crate::op::Op;
use crate::undo::Undo;

/// Version of the record's shape. 2 lacks the cluster's id in stamps.
pub const SCHEMA: u32 = 3;

/// One line of `records.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// Always [`SCHEMA`] when written.
    pub schema: u32,
    /// Run id.
    pub run: String,
    /// Grows over a run; gives a node's undo its order.
    pub sequence: u64,
    /// Which step.
    pub step: StepId,
    /// Its ops as they were sent.
    pub ops: Vec<Op>,
    /// How the plan rolls it back.
    pub undo: Undo,
    /// What each op found before the step's first change in this run.
    pub before: Vec<ObservedState>,
    /// How far it came.
    pub outcome: Outcome,
}

/// How far a step came. `Begun` is written before the change, one of the others after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase", deny_unknown_fields)]
pub enum Outcome {
    /// The change may or may not have happened.
    Begun,
    /// Every op was converged.
    Done,
    /// An op failed.
    Failed {
        /// Why.
        text: String,
    },
    /// The state before came back, in all three waves.
    Restored,
}

/// Records of steps that were begun and have not been rolled back, in their order.
pub fn standing<'a>(records: impl Iterator<Item = &'a Record> + Clone) -> impl Iterator<Item = &'a Record> {
    let last: BTreeMap<(&str, &StepId), &Outcome> =
        records.clone().map(|record| ((record.run.as_str(), &record.step), &record.outcome)).collect();
    records.filter(move |record| last.get(&(record.run.as_str(), &record.step)) != Some(&&Outcome::Restored))
}

/// Whether a step with such an op was started here and has not been rolled back.
pub fn stands<'a>(records: impl Iterator<Item = &'a Record> + Clone, is_it: impl Fn(&Op) -> bool) -> bool {
    standing(records).any(|record| record.ops.iter().any(&is_it))
}
