//! Allowed orders of journal records: two tables; anything else is an error.

use serde::Serialize;

use crate::record::{Ended, Record, Scope, UndoEnd};

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RunState {
    /// Nothing was written yet.
    #[default]
    New,
    /// An attempt is running, or has crashed.
    Running,
    /// The operator interrupted it.
    Interrupted,
    /// A step failed, and the changes were kept.
    Failed,
    /// Every step succeeded.
    Succeeded,
    /// Every step succeeded, except those of hosts that were left out.
    Partial,
    /// It is being rolled back, or the program crashed during the rollback.
    RollingBack,
    /// Everything that it has changed was restored.
    RolledBack,
    /// The rollback is incomplete; steps that were rolled back stay so.
    Stuck,
}

impl RunState {
    /// Whether `resume` continues the plan.
    pub const fn goes_forward(self) -> bool {
        matches!(self, Self::New | Self::Running | Self::Interrupted | Self::Failed | Self::Partial)
    }

    /// Whether `resume` continues the rollback.
    pub const fn goes_back(self) -> bool {
        matches!(self, Self::RollingBack | Self::Stuck)
    }

    /// Whether `rollback` may have something to do.
    pub const fn can_be_rolled_back(self) -> bool {
        !matches!(self, Self::New | Self::RolledBack)
    }
}

/// The state of a step in the current attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StepState {
    /// Not observed in this attempt.
    #[default]
    Waiting,
    /// Its before-state is journalled; it may be half changed.
    Prepared,
    /// Satisfied without a change in this attempt.
    Satisfied,
    /// Changed, and satisfied now.
    Done,
    /// Failed after all attempts.
    Failed,
    /// A step that it depends on failed, or its host was left out.
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
    // A crash leaves `Running`.
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
    // After an interruption, a crash, or a fix of what was stuck, it continues.
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
    // Whatever its state in this attempt, an earlier attempt may have changed something.
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

/// The state of a run after a record; none if the record is not allowed.
pub(crate) fn run_after(state: RunState, verb: RunVerb) -> Option<RunState> {
    RUN_TABLE.iter().find(|(from, v, _)| *from == state && *v == verb).map(|(.., to)| *to)
}

/// The state of a step after a record; none if the record is not allowed.
pub(crate) fn step_after(state: StepState, verb: StepVerb) -> Option<StepState> {
    STEP_TABLE.iter().find(|(from, v, _)| *from == state && *v == verb).map(|(.., to)| *to)
}
