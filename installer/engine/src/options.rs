//! How a plan is executed, besides what is in the plan itself, and how that may end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kubexm_plan::StepId;
use kubexm_spec::ExitCode;
use tokio_util::sync::CancellationToken;

use crate::journal::Record;

/// Where tests stop a run as a crash would: before or after a journal record reaches the disk.
pub trait Hook: Send + Sync {
    /// Before the `nth` record of the journal (from 1) is written; `false` ends the run there.
    fn before_record(&self, nth: usize, record: &Record) -> bool;
    /// After it was written.
    fn after_record(&self, nth: usize, record: &Record) -> bool;
}

/// What happens when a step failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The run is rolled back: nothing new begins, evidence is kept, and every change is undone.
    #[default]
    Rollback,
    /// Everything stays as it is, for `resume`; what does not need the failed step is executed.
    Keep,
}

/// A failure on purpose, for operators who want to see the rollback before they need it, and for tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drill {
    /// This step is reported as failed after it was done.
    FailStep(StepId),
    /// The run ends with [`crate::EngineError::Stopped`] when that many records are on disk (from 1, over all attempts),
    /// and the program is expected to end at once: what the death of a controller leaves.
    DieAtRecord(usize),
}

/// How a plan is executed, besides what is in the plan itself.
#[derive(Clone)]
pub struct ExecuteOptions {
    /// Program and version, for the journal.
    pub tool: String,
    /// The exact command that continues with this run, for report and status.
    pub resume_command: String,
    /// The exact command that takes this run back; when empty, `kubexm-install rollback <run>`.
    pub rollback_command: String,
    /// When a step failed.
    pub on_failure: OnFailure,
    /// How many hosts that are failure domains of their own may be left out.
    pub max_failed_hosts: usize,
    /// Whether a rollback continues without hosts that are not reached: they are left as they are, the others are rolled back
    /// whole, and the run stays stuck until it is rolled back again with them. Else a host that is not reached holds up what
    /// its steps build on, and the waves that follow.
    pub skip_unreachable: bool,
    /// A failure on purpose.
    pub drill: Option<Drill>,
    /// Cancelled by Ctrl-C: the op that runs is finished, nothing new begins.
    pub cancel: CancellationToken,
    /// Time between two looks of a probe.
    pub poll: Duration,
    /// Pause before the second try of a step; doubled for each further one, up to a minute.
    pub backoff: Duration,
    /// A file of the cluster's where it is remembered when the networks of pods were seen to work from inside; without it
    /// every run checks them so.
    pub remembered: Option<PathBuf>,
    /// For tests.
    pub hook: Option<Arc<dyn Hook>>,
}

impl ExecuteOptions {
    /// The usual ones: rolled back on failure, no host left out, probes every second, two seconds before the second try.
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
    /// Every step holds.
    Succeeded,
    /// Every step holds but those of the hosts that were left out; `resume` tries those again.
    Partial,
    /// A step failed and nothing was rolled back; the report names it, and how to continue.
    Failed,
    /// Everything the run had changed is as it was before.
    RolledBack,
    /// It could not be rolled back whole; the report has the reason, and the command that continues.
    Stuck,
    /// The operator interrupted; `resume` continues, forward or back.
    Interrupted,
}

impl Outcome {
    /// The exit code of the program, when the run was to be executed. (Of a rollback that was asked for,
    /// [`Outcome::RolledBack`] is the success.)
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
