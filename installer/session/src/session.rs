//! What a session knows of its surroundings.

use std::path::PathBuf;
use std::time::SystemTime;

use kubexm_engine::EventSink;
use tokio_util::sync::CancellationToken;

use crate::confirm::{Answer, Confirm, Question};
use crate::credentials::Credentials;
use crate::error::SessionError;
use crate::home::Home;
use crate::link::Connector;

/// What one use of the installer knows of its surroundings: values and traits, so that several sessions run in one process at
/// the same time.
#[derive(Clone)]
pub struct Session<'a> {
    /// Folders of this machine.
    pub home: &'a Home,
    /// Takes every event.
    pub events: &'a dyn EventSink,
    /// Answers questions.
    pub confirm: &'a dyn Confirm,
    /// Gives secrets.
    pub credentials: &'a dyn Credentials,
    /// Connects to hosts.
    pub connector: &'a dyn Connector,
    /// Names runs.
    pub clock: &'a dyn Clock,
    /// Who works on the hosts.
    pub controller: &'a Controller,
    /// When cancelled, what is being done is finished and nothing new begins.
    pub cancel: CancellationToken,
}

/// The program and machine that work on the hosts.
#[derive(Clone, Debug)]
pub struct Controller {
    /// Program and version, for journals.
    pub tool: String,
    /// Machine and process, for anybody who finds a host or a cluster locked.
    pub name: String,
    /// The program that becomes the agent on hosts of this machine's architecture.
    pub agent: PathBuf,
}

/// Gives the time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> SystemTime;
}

/// This machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

impl Session<'_> {
    /// Who holds the hosts of a cluster, for anybody who finds them held.
    pub(crate) fn holder(&self, verb: &str, cluster: &str) -> String {
        format!("{verb} of cluster {cluster} from {}", self.controller.name)
    }

    /// Asks before a change; anything but a confirmation ends the run before it begins.
    pub(crate) async fn ask(&self, question: Question<'_>) -> Result<(), SessionError> {
        match self.confirm.confirm(question).await {
            Answer::Yes => Ok(()),
            Answer::No | Answer::Nobody => Err(SessionError::Declined),
        }
    }

    /// Ends what has changed nothing yet when it was interrupted.
    pub(crate) fn check_interrupt(&self) -> Result<(), SessionError> {
        match self.cancel.is_cancelled() {
            true => Err(SessionError::Interrupted),
            false => Ok(()),
        }
    }
}
