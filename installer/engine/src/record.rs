//! The records of a journal.

use kubexm_plan::{StepId, Wave};
use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::link::ObservedState;

/// How an attempt at a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ended {
    /// Every step succeeded.
    Succeeded,
    /// Every step succeeded, except those of hosts that were left out.
    Partial,
    /// A step failed.
    Failed,
}

/// The scope of an undo.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Scope {
    /// All changes of the run.
    Run,
    /// Only the steps of one failure domain; the run continues in parallel.
    Host {
        /// The domain's host.
        host: String,
    },
}

/// How an undo ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum UndoEnd {
    /// The earlier state was restored.
    #[serde(rename = "takenBack")]
    RolledBack,
    /// It could not be completed.
    Stuck {
        /// The reason, and how to fix it.
        why: String,
    },
}

/// One thing that happened. Before-states are digests and modes, never contents or secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Record {
    /// The first record of every journal.
    RunStarted {
        /// Digest of the plan in plan.json.
        plan: Digest,
        /// Program and version.
        tool: String,
        /// The command that resumes this run, for people.
        resume: String,
        /// The command that rolls this run back, for people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        rollback: String,
    },
    /// A further attempt starts; every step is observed again.
    Resumed {
        /// Program and version.
        tool: String,
    },
    /// Write-ahead: the observed state, before the change.
    StepPrepared {
        step: StepId,
        /// Number of the change in this run; also identifies the record in the node's ledger.
        sequence: u64,
        /// One entry for each op.
        before: Vec<ObservedState>,
    },
    /// The step was satisfied already.
    StepSatisfied {
        step: StepId,
        /// Milliseconds.
        duration_ms: u64,
    },
    /// The step was changed and is satisfied now.
    StepDone {
        step: StepId,
        /// Milliseconds until the time of this record, which shows the steps that ran in parallel.
        duration_ms: u64,
    },
    /// The step failed after all attempts.
    StepFailed {
        step: StepId,
        /// The error, and how to fix it.
        error: String,
        /// Number of attempts.
        tries: u32,
        /// Milliseconds.
        duration_ms: u64,
    },
    /// A step that it depends on failed, or its host was left out.
    StepBlocked {
        step: StepId,
        /// The step that failed.
        on: StepId,
    },
    /// Write-ahead: these steps will be rolled back to the state before their first change. Written again after a crash
    /// or a stuck undo; steps that were rolled back stay so.
    UndoBegan {
        /// The scope.
        scope: Scope,
        why: String,
        /// Every step that will be changed, in the order of the plan.
        steps: Vec<StepId>,
    },
    /// A step was rolled back in this wave and the earlier ones.
    WaveDone {
        step: StepId,
        /// The wave.
        wave: Wave,
    },
    /// A step could not be rolled back, after all attempts.
    UndoFailed {
        step: StepId,
        /// The wave.
        wave: Wave,
        /// The error.
        error: String,
        /// Number of attempts.
        tries: u32,
    },
    /// An undo finished.
    UndoEnded {
        /// The scope.
        scope: Scope,
        end: UndoEnd,
    },
    /// The operator interrupted the attempt.
    Interrupted,
    /// The attempt finished.
    RunEnded { outcome: Ended },
}

/// The names of all records, to distinguish a newer version's record from a damaged line.
pub(crate) const NAMES: [&str; 13] = [
    "runStarted",
    "resumed",
    "stepPrepared",
    "stepSatisfied",
    "stepDone",
    "stepFailed",
    "stepBlocked",
    "undoBegan",
    "waveDone",
    "undoFailed",
    "undoEnded",
    "interrupted",
    "runEnded",
];
