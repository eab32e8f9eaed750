//! What a journal's records say.

use kubexm_plan::{StepId, Wave};
use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::link::ObservedState;

/// How an attempt at a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ended {
    /// Every step holds.
    Succeeded,
    /// Every step holds but those of the hosts that were left out.
    Partial,
    /// A step failed.
    Failed,
}

/// What an undo goes over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Scope {
    /// Everything that the run has changed.
    Run,
    /// Only the steps of one failure domain; the run continues beside it.
    Host {
        /// The domain's host.
        host: String,
    },
}

/// How an undo ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum UndoEnd {
    /// The state before came back.
    #[serde(rename = "takenBack")]
    RolledBack,
    /// It could not continue.
    Stuck {
        /// Why, with the way to fix it.
        why: String,
    },
}

/// One thing that happened. Before-states are digests and modes, never contents or secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Record {
    /// The first record of every journal.
    RunStarted {
        /// Digest of plan.json's plan.
        plan: Digest,
        /// Program and version.
        tool: String,
        /// The command that continues with this run, for people.
        resume: String,
        /// The command that takes this run back, for people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        rollback: String,
    },
    /// A further attempt begins; every step is looked at again.
    Resumed {
        /// Program and version.
        tool: String,
    },
    /// Write-ahead: this is what was found, the change comes next.
    StepPrepared {
        step: StepId,
        /// Number of the change in this run; also names the node's ledger record.
        sequence: u64,
        /// One entry an op.
        before: Vec<ObservedState>,
    },
    /// The step held already.
    StepSatisfied {
        step: StepId,
        /// Milliseconds.
        duration_ms: u64,
    },
    /// The step was changed and seen to hold.
    StepDone {
        step: StepId,
        /// Milliseconds, back from the time of this record: when it ran, to see what ran beside it.
        duration_ms: u64,
    },
    /// The step failed after all its tries.
    StepFailed {
        step: StepId,
        /// What went wrong, with the way to fix it.
        error: String,
        /// How often it was tried.
        tries: u32,
        /// Milliseconds.
        duration_ms: u64,
    },
    /// A step it needs failed, or its host is left out.
    StepBlocked {
        step: StepId,
        /// The step that failed.
        on: StepId,
    },
    /// Write-ahead: these steps will be rolled back, from what they found before their first change. Again after a
    /// crash or a stuck undo: what was rolled back stays so.
    UndoBegan {
        /// What is rolled back.
        scope: Scope,
        why: String,
        /// Every step that will be touched, in the order of the plan.
        steps: Vec<StepId>,
    },
    /// A step was rolled back in this wave and those before it.
    WaveDone {
        step: StepId,
        /// Up to which.
        wave: Wave,
    },
    /// A step could not be rolled back, after all its tries.
    UndoFailed {
        step: StepId,
        /// In which wave.
        wave: Wave,
        /// What went wrong.
        error: String,
        /// How often it was tried.
        tries: u32,
    },
    /// An undo finished.
    UndoEnded {
        /// What is rolled back.
        scope: Scope,
        end: UndoEnd,
    },
    /// The operator interrupted the attempt.
    Interrupted,
    /// The attempt finished.
    RunEnded { outcome: Ended },
}

/// The names of all records, to tell a newer program's record from a damaged line.
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
