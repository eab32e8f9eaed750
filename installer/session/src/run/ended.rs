//! The last stage: how a run ended.

use std::path::PathBuf;

use kubexm_engine::{Outcome, Status};
use kubexm_plan::Pipeline;
use kubexm_spec::ExitCode;

/// The requested direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Execute the plan.
    Forward,
    /// Roll back the run.
    Back,
}

/// How a run ended. Only [`super::Running::finish`] and [`super::Loaded::roll_back`] create one.
#[derive(Debug)]
pub struct Ended {
    /// The cluster.
    pub cluster: String,
    /// The pipeline.
    pub pipeline: Pipeline,
    /// The requested direction.
    pub direction: Direction,
    /// The run; none if there was nothing to do and no run was created.
    pub run: Option<EndedRun>,
    /// The operator's kubeconfig, if the cluster runs and it was fetched.
    pub kubeconfig: Option<PathBuf>,
    /// Whether a control plane sent a kubeconfig that was rejected, which stopped the run.
    pub host_untrusted: bool,
    /// Whether the operator installs the pod network, and so has to clean it up.
    pub network_of_operator: bool,
    /// Hosts that could not be reached, and still have what the cluster put there.
    pub missing: Vec<String>,
}

/// A run that has ended, at least for now.
#[derive(Debug)]
pub struct EndedRun {
    pub outcome: Outcome,
    /// Its steps, and the next commands.
    pub status: Status,
    /// Its report, for people.
    pub report: PathBuf,
}

impl Ended {
    /// Whether the request succeeded.
    pub fn is_success(&self) -> bool {
        self.exit_code() == ExitCode::Ok
    }

    /// The exit code of a program that only did this.
    pub fn exit_code(&self) -> ExitCode {
        let of_run = match (&self.run, self.direction) {
            (None, _) => ExitCode::Ok,
            (Some(EndedRun { outcome: Outcome::RolledBack, .. }), Direction::Back) => ExitCode::Ok,
            (Some(run), _) => run.outcome.exit_code(),
        };
        match of_run {
            code if code != ExitCode::Ok && self.host_untrusted => ExitCode::HostUntrusted,
            ExitCode::Ok if !self.missing.is_empty() => ExitCode::RunPartial,
            code => code,
        }
    }
}
