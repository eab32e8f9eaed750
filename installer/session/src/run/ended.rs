//! The last stage: how a run ended.

use std::path::PathBuf;

use kubexm_engine::{Outcome, Status};
use kubexm_plan::Pipeline;
use kubexm_spec::ExitCode;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The plan was to be executed.
    Forward,
    /// The run was to be rolled back.
    Back,
}

/// How a run ended. Made by [`super::Running::finish`] and [`super::Loaded::roll_back`] alone.
#[derive(Debug)]
pub struct Ended {
    /// The cluster.
    pub cluster: String,
    /// The pipeline.
    pub pipeline: Pipeline,
    /// What was asked for.
    pub direction: Direction,
    /// Where the run is; none when there was nothing to do, and no run was made.
    pub run: Option<EndedRun>,
    /// The operator's kubeconfig, when the cluster runs and it was fetched.
    pub kubeconfig: Option<PathBuf>,
    /// A control plane sent a kubeconfig that is not accepted: the run stopped over it.
    pub host_untrusted: bool,
    /// The pod network is the operator's to install, and to clean up.
    pub network_of_operator: bool,
    /// Hosts that could not be reached and were not reset.
    pub missing: Vec<String>,
}

/// A run that has ended, for now.
#[derive(Debug)]
pub struct EndedRun {
    pub outcome: Outcome,
    /// Its steps, and the commands that come next.
    pub status: Status,
    /// Its report, for people.
    pub report: PathBuf,
}

impl Ended {
    /// Whether what was asked for is so.
    pub fn is_success(&self) -> bool {
        self.exit_code() == ExitCode::Ok
    }

    /// The exit code of a program that did nothing else.
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
