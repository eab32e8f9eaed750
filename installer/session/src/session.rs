//! The environment of a session.

use std::path::PathBuf;
use std::time::SystemTime;

use kubexm_engine::EventSink;
use kubexm_engine::clock::unix_seconds;
use tokio_util::sync::CancellationToken;

use crate::confirm::{Answer, Confirm, Question};
use crate::credentials::Credentials;
use crate::error::SessionError;
use crate::file_system::FileSystems;
use crate::home::Home;
use crate::link::Connector;

/// The environment in which the installer runs: values and traits, so that several sessions can run in one process.
#[derive(Clone)]
pub struct Session<'a> {
    /// Folders of the controller.
    pub home: &'a Home,
    /// Receives every event.
    pub events: &'a dyn EventSink,
    /// Answers questions.
    pub confirm: &'a dyn Confirm,
    /// Reads secrets.
    pub credentials: &'a dyn Credentials,
    /// Connects to hosts.
    pub connector: &'a dyn Connector,
    /// Time, for the names of runs.
    pub clock: &'a dyn Clock,
    /// Where bundles are stored, which decides whether their verification may be remembered.
    pub file_systems: &'a dyn FileSystems,
    /// The program and machine that work on the hosts.
    pub controller: &'a Controller,
    /// On cancellation, current work is finished and nothing new is started.
    pub cancel: CancellationToken,
}

/// The program and machine that work on the hosts.
#[derive(Clone, Debug)]
pub struct Controller {
    /// Program and version, for journals.
    pub tool: String,
    /// Machine and process, shown to another run that finds a host or a cluster locked.
    pub name: String,
    /// The program that is installed as agent on hosts with the controller's architecture.
    pub agent: PathBuf,
}

/// A clock.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> SystemTime;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

impl Session<'_> {
    /// The description of the lock's holder, shown to others who find the hosts locked.
    pub(crate) fn holder(&self, verb: &str, cluster: &str) -> String {
        format!("{verb} of cluster {cluster} from {}", self.controller.name)
    }

    /// Asks before a change; any answer other than yes is an error.
    pub(crate) async fn ask(&self, question: Question<'_>) -> Result<(), SessionError> {
        match self.confirm.confirm(question).await {
            Answer::Yes => Ok(()),
            Answer::No | Answer::Nobody => Err(SessionError::Declined),
        }
    }

    /// The session's clock, in seconds of Unix time.
    pub(crate) fn unix_time(&self) -> i64 {
        unix_seconds(self.clock.now())
    }

    /// Fails if it was interrupted, while nothing has been changed yet.
    pub(crate) fn check_interrupt(&self) -> Result<(), SessionError> {
        match self.cancel.is_cancelled() {
            true => Err(SessionError::Interrupted),
            false => Ok(()),
        }
    }
}
