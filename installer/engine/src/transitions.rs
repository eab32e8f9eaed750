//! What may follow what in a journal: the two tables are the whole law, anything else is an error.

use serde::Serialize;

use crate::record::{Ended, Record, Scope, UndoEnd};

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RunState {
    /// Nothing was written yet.
    #[default]
    New,
    /// An attempt is continuing, or died.
    Running,
    /// The operator interrupted it.
    Interrupted,
    /// A step failed, and what was done is still there.
    Failed,
    /// Every step holds.
    Succeeded,
    /// Every step holds but those of the hosts that were left out.
    Partial,
    /// It is being rolled back, or the program died while it was.
    RollingBack,
    /// Everything it had changed is as it was before.
    RolledBack,
    /// It could not be rolled back whole; what was rolled back stays so.
    Stuck,
}

impl RunState {
    /// Whether `resume` carries the plan on.
    pub const fn goes_forward(self) -> bool {
        matches!(self, Self::New | Self::Running | Self::Interrupted | Self::Failed | Self::Partial)
    }

    /// Whether `resume` continues with rolling back.
    pub const fn goes_back(self) -> bool {
        matches!(self, Self::RollingBack | Self::Stuck)
    }

    /// Whether there may be something that `rollback` rolls back.
    pub const fn can_be_rolled_back(self) -> bool {
        !matches!(self, Self::New | Self::RolledBack)
    }
}

/// Where a step is in the current attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StepState {
    /// Not looked at in this attempt.
    #[default]
    Waiting,
    /// Its before-state is written down; it may be half changed.
    Prepared,
    /// Held without a change in this attempt.
    Satisfied,
    /// Changed and seen to hold.
    Done,
    /// Failed after its tries.
    Failed,
    /// A step it needs failed, or its host is left out.
    Blocked,
    /// Changed, and rolled back.
    Undone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunVerb {
    Start,
    Resume,
    Step,
    Interrupt,
    Succeed,
    LeaveOut,
    Fail,
    UndoHost,
    UndoRun,
    UndoStep,
    RolledBack,
    Stick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepVerb {
    Prepare,
    Satisfy,
    Finish,
    Fail,
    Block,
    Undo,
}

const RUN_TABLE: [(RunState, RunVerb, RunState); 23] = [
    (RunState::New, RunVerb::Start, RunState::Running),
    (RunState::Running, RunVerb::Step, RunState::Running),
    (RunState::Running, RunVerb::Interrupt, RunState::Interrupted),
    (RunState::Running, RunVerb::Succeed, RunState::Succeeded),
    (RunState::Running, RunVerb::LeaveOut, RunState::Partial),
    (RunState::Running, RunVerb::Fail, RunState::Failed),
    // A crash leaves `Running` behind.
    (RunState::Running, RunVerb::Resume, RunState::Running),
    (RunState::Interrupted, RunVerb::Resume, RunState::Running),
    (RunState::Failed, RunVerb::Resume, RunState::Running),
    (RunState::Partial, RunVerb::Resume, RunState::Running),
    // A host that failed is rolled back while the others continue.
    (RunState::Running, RunVerb::UndoHost, RunState::Running),
    (RunState::Running, RunVerb::UndoStep, RunState::Running),
    // Everything is rolled back.
    (RunState::Running, RunVerb::UndoRun, RunState::RollingBack),
    (RunState::Interrupted, RunVerb::UndoRun, RunState::RollingBack),
    (RunState::Failed, RunVerb::UndoRun, RunState::RollingBack),
    (RunState::Partial, RunVerb::UndoRun, RunState::RollingBack),
    (RunState::Succeeded, RunVerb::UndoRun, RunState::RollingBack),
    (RunState::RollingBack, RunVerb::UndoStep, RunState::RollingBack),
    (RunState::RollingBack, RunVerb::RolledBack, RunState::RolledBack),
    (RunState::RollingBack, RunVerb::Stick, RunState::Stuck),
    // Interrupted or dead in the middle, or stuck and fixed: it continues.
    (RunState::RollingBack, RunVerb::Interrupt, RunState::RollingBack),
    (RunState::RollingBack, RunVerb::UndoRun, RunState::RollingBack),
    (RunState::Stuck, RunVerb::UndoRun, RunState::RollingBack),
];

const STEP_TABLE: [(StepState, StepVerb, StepState); 12] = [
    (StepState::Waiting, StepVerb::Satisfy, StepState::Satisfied),
    (StepState::Waiting, StepVerb::Prepare, StepState::Prepared),
    (StepState::Waiting, StepVerb::Fail, StepState::Failed),
    (StepState::Waiting, StepVerb::Block, StepState::Blocked),
    (StepState::Prepared, StepVerb::Finish, StepState::Done),
    (StepState::Prepared, StepVerb::Fail, StepState::Failed),
    // Whatever became of it in this attempt, an earlier one may have changed something.
    (StepState::Waiting, StepVerb::Undo, StepState::Undone),
    (StepState::Prepared, StepVerb::Undo, StepState::Undone),
    (StepState::Satisfied, StepVerb::Undo, StepState::Undone),
    (StepState::Done, StepVerb::Undo, StepState::Undone),
    (StepState::Failed, StepVerb::Undo, StepState::Undone),
    (StepState::Blocked, StepVerb::Undo, StepState::Undone),
];

impl RunVerb {
    pub(crate) const fn of(record: &Record) -> Self {
        match record {
            Record::RunStarted { .. } => Self::Start,
            Record::Resumed { .. } => Self::Resume,
            Record::Interrupted => Self::Interrupt,
            Record::RunEnded { outcome: Ended::Succeeded } => Self::Succeed,
            Record::RunEnded { outcome: Ended::Partial } => Self::LeaveOut,
            Record::RunEnded { outcome: Ended::Failed } => Self::Fail,
            Record::UndoBegan { scope: Scope::Host { .. }, .. }
            | Record::UndoEnded { scope: Scope::Host { .. }, .. } => Self::UndoHost,
            Record::UndoBegan { scope: Scope::Run, .. } => Self::UndoRun,
            Record::WaveDone { .. } | Record::UndoFailed { .. } => Self::UndoStep,
            Record::UndoEnded { scope: Scope::Run, end: UndoEnd::RolledBack } => Self::RolledBack,
            Record::UndoEnded { scope: Scope::Run, end: UndoEnd::Stuck { .. } } => Self::Stick,
            Record::StepPrepared { .. }
            | Record::StepSatisfied { .. }
            | Record::StepDone { .. }
            | Record::StepFailed { .. }
            | Record::StepBlocked { .. } => Self::Step,
        }
    }
}

/// The state of a run after a record, or none when it cannot follow.
pub(crate) fn run_after(state: RunState, verb: RunVerb) -> Option<RunState> {
    RUN_TABLE.iter().find(|(from, v, _)| *from == state && *v == verb).map(|(.., to)| *to)
}

/// The state of a step after a record, or none when it cannot follow.
pub(crate) fn step_after(state: StepState, verb: StepVerb) -> Option<StepState> {
    STEP_TABLE.iter().find(|(from, v, _)| *from == state && *v == verb).map(|(.., to)| *to)
}
