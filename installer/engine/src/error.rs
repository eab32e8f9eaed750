//! Errors of a run, with their exit codes.

use std::path::{Path, PathBuf};

use kubexm_plan::{Problem, StepId};
use kubexm_spec::ExitCode;

use crate::link::LinkError;

/// Why a run could not be created, read or executed. A failed *step* is not an error of the engine: it is an
/// [`Outcome`](crate::Outcome), described in journal and report.
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
        /// The path that was read.
        path: PathBuf,
    },
    /// The content of a file in a run folder is not valid.
    #[error(
        "{path} is damaged: {reason}; the run cannot continue: start a new one: it does not change what is already in \
         place on the hosts"
    )]
    RunDamaged {
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The journal has a record that this version does not know.
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
        /// The value in the plan.
        planned: String,
        /// The value given now.
        given: String,
        /// How to fix it.
        hint: &'static str,
    },
    /// The stored plan does not pass the lint.
    #[error("the plan of run {run} does not pass its lint: {}", first_texts(.problems))]
    PlanLint {
        /// Run id.
        run: String,
        /// All problems.
        problems: Vec<Problem>,
    },
    /// A step waits for itself through others, or for one that does not exist.
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
        /// The reason; never the value.
        reason: String,
    },
    /// A certificate of the controller's pki folder cannot be made or read.
    #[error("{path}: {reason}; move the file aside and run again: a new one is made and distributed")]
    Pki {
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The folder of requests for certificates cannot be used.
    #[error(
        "{path}: {reason}; move the folder aside, and run `kubexm-install certs requests` again: all certificates must be signed anew then"
    )]
    Requests {
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// An authority of the cluster's own has ended.
    #[error("{path}: this authority has ended, and nothing that it signs is valid; {hint}")]
    AuthorityEnded {
        path: PathBuf,
        /// What helps.
        hint: &'static str,
    },
    /// The operator's identity cannot be used.
    #[error("{path}, by which this home opens what is sealed for it: {reason}")]
    Identity {
        path: PathBuf,
        /// What is wrong, and what to do; never what is in the file.
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
    /// The run was rolled back, so its plan no longer fits the hosts.
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
    /// Designed, but not supported yet.
    #[error("{what} is not supported yet; {instead}")]
    Unsupported {
        /// The feature.
        what: &'static str,
        /// What can be done instead.
        instead: &'static str,
    },
    /// A host could not be used, outside of any step.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A test's hook stopped the run, like a crash.
    #[error("the run was stopped by a hook at journal record {record}")]
    Stopped {
        /// Number of records written so far.
        record: usize,
    },
    /// A value that should always be serialisable was not.
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

    /// The exit code of the program if it ends with this error.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::File { .. } => ExitCode::Disk,
            Self::NoRun { .. } | Self::RolledBack { .. } | Self::NotBegun { .. } => ExitCode::Usage,
            Self::RunDamaged { .. } | Self::Illegal { .. } => ExitCode::RunStuck,
            Self::JournalNewer { .. } | Self::PlanMismatch { .. } => ExitCode::PlanMismatch,
            Self::PlanLint { .. } | Self::Order { .. } => ExitCode::PlanLint,
            Self::Identity { .. } | Self::AuthorityEnded { .. } => ExitCode::Config,
            Self::ClusterLocked { .. } => ExitCode::HostLocked,
            Self::Unsupported { .. } => ExitCode::Unsupported,
            Self::Link(error) => error.exit_code(),
            Self::NoLink { .. }
            | Self::Slot { .. }
            | Self::Pki { .. }
            | Self::Requests { .. }
            | Self::Stopped { .. }
            | Self::Serialise { .. } => ExitCode::Internal,
        }
    }
}

impl LinkError {
    /// The exit code if this stops a run from starting. During a run it fails a step instead.
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

    /// Whether a retry may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Op { text, .. } => !LASTING.iter().any(|lasting| text.contains(lasting)),
            _ => false,
        }
    }
}

/// Texts of errors that only the operator can fix: ENOSPC, EDQUOT, EROFS (strerror(3) in the C locale, as shown by the
/// standard library and by programs that the agent runs).
const LASTING: [&str; 3] = ["No space left on device", "Disk quota exceeded", "Read-only file system"];

/// The first three problems, for a one-line error.
fn first_texts(problems: &[Problem]) -> String {
    let texts: Vec<&str> = problems.iter().take(3).map(|p| p.text.as_str()).collect();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_only_the_operator_can_fix_are_not_retried() {
        let op = |text: &str| LinkError::Op { host: "n1".to_owned(), text: text.to_owned() };
        let full = std::io::Error::from_raw_os_error(28);
        assert!(!op(&format!("cannot write /var/lib/kubexm/store/x: {full}")).may_pass(), "{full}");
        assert!(!op("`tar` failed (exit code 2): write error: No space left on device").may_pass());
        assert!(op("`ctr` failed (exit code 1): connection refused").may_pass());
    }
}
