//! Errors of a run, with their exit codes.

use std::path::{Path, PathBuf};

use kubexm_plan::{Problem, StepId};
use kubexm_spec::ExitCode;

use crate::link::LinkError;

/// Why a run could not be made, read or carried on. A failed *step* is no error of the engine: it is an
/// [`Outcome`](crate::Outcome) with its story in journal and report.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A system call on a file of the controller failed.
    #[error("cannot {action} {path}; check space and permissions of this machine's disk")]
    File {
        /// `write`, `read`, `rename` …
        action: &'static str,
        /// Path on the controller.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// There is no such run.
    #[error("there is no run at {path}; `kubexm-install status` lists the runs of a cluster")]
    NoRun {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A file of a run folder does not hold what was written.
    #[error(
        "{path} is damaged: {reason}; the run cannot continue: start a new one: it does not change what is already in \
         place on the hosts"
    )]
    RunDamaged {
        path: PathBuf,
        /// What was seen.
        reason: String,
    },
    /// The journal has a record this program does not know.
    #[error(
        "{path}, line {line}: record {record:?} was written by a newer version; continue with that version of kubexm-install"
    )]
    JournalNewer {
        /// The journal.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The record's name.
        record: String,
    },
    /// The journal's records contradict each other.
    #[error("{path}, line {line}: {reason}; the run cannot continue by itself: start a new one")]
    Illegal {
        /// The journal.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        reason: String,
    },
    /// The plan belongs to another bundle, cluster or schema.
    #[error("the plan of run {run} belongs to another {what}: it has {planned}, this is {given}; {hint}")]
    PlanMismatch {
        /// Run id.
        run: String,
        /// `bundle`, `cluster.yaml`, `plan schema`, `plan`.
        what: &'static str,
        /// In the plan.
        planned: String,
        /// What was given now.
        given: String,
        /// How to fix it.
        hint: &'static str,
    },
    /// The stored plan does not pass the lint.
    #[error("the plan of run {run} does not pass its lint: {}", first_texts(.problems))]
    PlanLint {
        /// Run id.
        run: String,
        /// All of them.
        problems: Vec<Problem>,
    },
    /// Steps wait for each other, or for one that does not exist.
    #[error("step {step} can never run: {reason}; this is a fault of the recipe")]
    Order { step: StepId, reason: String },
    /// A step names a host without a link.
    #[error("step {step} runs on {host}, to which there is no link; this is a fault of the program")]
    NoLink {
        step: StepId,
        /// Host.
        host: String,
    },
    /// A slot's value cannot be made.
    #[error("cannot make the value of slot {slot}: {reason}")]
    Slot {
        /// Name.
        slot: String,
        /// Why; never the value.
        reason: String,
    },
    /// A certificate of the controller's pki folder cannot be made or read.
    #[error("{path}: {reason}; move the file aside and run again: a new one is made and distributed")]
    Pki {
        path: PathBuf,
        /// What was wrong.
        reason: String,
    },
    /// Another run works on the cluster, from this controller.
    #[error("cluster {cluster} is held by another run on this machine ({holder}); wait for it to end")]
    ClusterLocked {
        /// `metadata.name`.
        cluster: String,
        /// Process and run, when known.
        holder: String,
    },
    /// The run was rolled back: its plan was made for hosts that are as before.
    #[error("run {run} was rolled back and cannot continue; start a new one with `kubexm-install create`")]
    RolledBack {
        /// Run id.
        run: String,
    },
    /// There is nothing to roll back.
    #[error("run {run} has not started: it has changed nothing that could be rolled back")]
    NotBegun {
        /// Run id.
        run: String,
    },
    /// The design names it, this program does not build it yet.
    #[error("{what} is not supported yet; {instead}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// What can be done today.
        instead: &'static str,
    },
    /// A host could not be worked with, outside any step.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A hook of a test ended the run as a crash would.
    #[error("the run was stopped by a hook at journal record {record}")]
    Stopped {
        /// Records written so far.
        record: usize,
    },
    /// Something that can always be written could not be.
    #[error("cannot serialise {what}; this is a fault of the program")]
    Serialise {
        what: &'static str,
        /// serde's error.
        #[source]
        source: serde_json::Error,
    },
}

impl EngineError {
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }

    /// The exit code of the program when this ends it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::File { .. } => ExitCode::Disk,
            Self::NoRun { .. } | Self::RolledBack { .. } | Self::NotBegun { .. } => ExitCode::Usage,
            Self::RunDamaged { .. } | Self::Illegal { .. } => ExitCode::RunStuck,
            Self::JournalNewer { .. } | Self::PlanMismatch { .. } => ExitCode::PlanMismatch,
            Self::PlanLint { .. } | Self::Order { .. } => ExitCode::PlanLint,
            Self::ClusterLocked { .. } => ExitCode::HostLocked,
            Self::Unsupported { .. } => ExitCode::Unsupported,
            Self::Link(error) => error.exit_code(),
            Self::NoLink { .. }
            | Self::Slot { .. }
            | Self::Pki { .. }
            | Self::Stopped { .. }
            | Self::Serialise { .. } => ExitCode::Internal,
        }
    }
}

impl LinkError {
    /// The exit code when this keeps a run from beginning. Inside a run it fails a step instead.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Unreachable { .. } => ExitCode::HostUnreachable,
            Self::Denied { .. } => ExitCode::HostDenied,
            Self::NoSudo { .. } => ExitCode::HostNoSudo,
            Self::Locked { .. } => ExitCode::HostLocked,
            Self::Op { .. } => ExitCode::RunFailed,
            Self::Protocol { .. } => ExitCode::Internal,
            Self::Untrusted { .. } => ExitCode::HostUntrusted,
            Self::Source { .. } => ExitCode::BundleDamaged,
        }
    }

    /// Whether another try may help.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Op { text, .. } => !LASTING.iter().any(|lasting| text.contains(lasting)),
            _ => false,
        }
    }
}

/// What the C library says of errors that only the operator can end (strerror(3) in the C locale, which is what the
/// standard library and programs that the agent runs show): ENOSPC, EDQUOT, EROFS.
const LASTING: [&str; 3] = ["No space left on device", "Disk quota exceeded", "Read-only file system"];

/// The first three problems, for an error of one line.
fn first_texts(problems: &[Problem]) -> String {
    let texts: Vec<&str> = problems.iter().take(3).map(|p| p.text.as_str()).collect();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_try_is_not_made_where_only_the_operator_can_help() {
        let op = |text: &str| LinkError::Op { host: "n1".to_owned(), text: text.to_owned() };
        let full = std::io::Error::from_raw_os_error(28);
        assert!(!op(&format!("cannot write /var/lib/kubexm/store/x: {full}")).may_pass(), "{full}");
        assert!(!op("`tar` failed (exit code 2): write error: No space left on device").may_pass());
        assert!(op("`ctr` failed (exit code 1): connection refused").may_pass());
    }
}
