//! Options of executing a plan, and the possible outcomes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kubexm_plan::StepId;
use kubexm_spec::ExitCode;
use tokio_util::sync::CancellationToken;

use crate::journal::Record;

/// Lets tests stop a run, like a crash, before or after a journal record is on disk.
pub trait Hook: Send + Sync {
    /// Called before the `nth` record of the journal (from 1) is written; `false` ends the run.
    fn before_record(&self, nth: usize, record: &Record) -> bool;
    /// Called after it was written.
    fn after_record(&self, nth: usize, record: &Record) -> bool;
}

/// What to do when a step fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Roll back the run: no further step starts, evidence is collected, and every change is undone.
    #[default]
    Rollback,
    /// Keep everything for `resume`; steps that do not depend on the failed one are still executed.
    Keep,
}

/// A simulated failure, for operators who want to watch a rollback before they need it, and for tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drill {
    /// Report this step as failed after it has succeeded.
    FailStep(StepId),
    /// End the run with [`crate::EngineError::Stopped`] when this many records are on disk (from 1, over all attempts);
    /// the program must exit at once, as if the controller had crashed.
    DieAtRecord(usize),
}

/// Options of executing a plan.
#[derive(Clone)]
pub struct ExecuteOptions {
    /// Program and version, for the journal.
    pub tool: String,
    /// The complete command that resumes this run, for report and status.
    pub resume_command: String,
    /// The complete command that rolls this run back; if empty, `kubexm-install rollback <run>`.
    pub rollback_command: String,
    /// What to do when a step fails.
    pub on_failure: OnFailure,
    /// How many optional hosts may be left out.
    pub max_failed_hosts: usize,
    /// Whether a rollback continues without hosts that cannot be reached: these are left as they are, the others are
    /// rolled back completely, and the run stays stuck until it is rolled back again with them. Otherwise an
    /// unreachable host blocks the steps that its own steps depend on, and the following waves.
    pub skip_unreachable: bool,
    /// A simulated failure.
    pub drill: Option<Drill>,
    /// Cancelled by Ctrl-C: running ops are finished, and nothing new is started.
    pub cancel: CancellationToken,
    /// Whether hosts take content from each other, where the plan says where they serve it.
    pub fan_out: bool,
    /// Interval between two runs of a probe.
    pub poll: Duration,
    /// Pause before the second attempt of a step; doubled for each further one, up to a minute.
    pub backoff: Duration,
    /// File of the cluster's folder with the last successful check of the pod networks; without it every run checks
    /// them from inside pods.
    pub remembered: Option<PathBuf>,
    /// For tests.
    pub hook: Option<Arc<dyn Hook>>,
}

impl ExecuteOptions {
    /// Defaults: roll back on failure, leave no host out, probe every second, two seconds before the second attempt.
    pub fn new(tool: impl Into<String>, resume_command: impl Into<String>) -> Self {
        Self {
            tool: tool.into(),
            resume_command: resume_command.into(),
            rollback_command: String::new(),
            on_failure: OnFailure::default(),
            max_failed_hosts: 0,
            skip_unreachable: false,
            drill: None,
            cancel: CancellationToken::new(),
            fan_out: true,
            poll: Duration::from_secs(1),
            backoff: Duration::from_secs(2),
            remembered: None,
            hook: None,
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every step succeeded.
    Succeeded,
    /// Every step succeeded, except those of hosts that were left out; `resume` tries them again.
    Partial,
    /// A step failed and nothing was rolled back; the report names it, and how to continue.
    Failed,
    /// Everything that the run has changed was restored.
    RolledBack,
    /// The rollback is incomplete; the report has the reason, and the command that continues.
    Stuck,
    /// The operator interrupted; `resume` continues, forward or back.
    Interrupted,
}

impl Outcome {
    /// The exit code of a program that executed the plan. (For a requested rollback, [`Outcome::RolledBack`] is the
    /// success.)
    pub const fn exit_code(self) -> ExitCode {
        match self {
            Self::Succeeded => ExitCode::Ok,
            Self::Partial => ExitCode::RunPartial,
            Self::Failed | Self::RolledBack => ExitCode::RunFailed,
            Self::Stuck => ExitCode::RunStuck,
            Self::Interrupted => ExitCode::Declined,
        }
    }
}
