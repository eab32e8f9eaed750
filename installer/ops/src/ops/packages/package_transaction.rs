//! Records what must be completed or rolled back after an interrupted installation (`/var/lib/kubexm/packages.json`).
//!
//! The state before a step tells what to restore, but not the current intermediate state: whether kubexm's policy
//! forbids starting services, whose units are not disabled yet, and which systemd unit runs the package manager.

use std::collections::BTreeSet;

use kubexm_plan::op::Packages;
use serde::{Deserialize, Serialize};

use super::keys::Watched;
use crate::fsio::{self, Access};
use crate::path_state::PathState;
use crate::system::{ActContext, Program};
use crate::{Machine, OpError, transient};

const PATH: &str = "/var/lib/kubexm/packages.json";

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PackageTransaction {
    /// Newly installed packages whose units are not disabled yet, by name.
    #[serde(default)]
    pub fresh: BTreeSet<String>,
    /// The earlier file at the path of kubexm's policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PathState>,
    /// Keys that rpm must not trust afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Watched>,
    /// The running act that installs or removes packages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<ActContext>,
    /// Its timeout in seconds.
    #[serde(default)]
    pub limit_s: u64,
}

impl PackageTransaction {
    /// None if nothing was interrupted.
    pub(super) fn read(machine: &Machine) -> Result<Option<Self>, OpError> {
        let Some(bytes) = fsio::read(&machine.path(PATH))? else { return Ok(None) };
        let read = serde_json::from_slice(&bytes).map_err(|error| {
            OpError::other(format!(
                "{PATH} cannot be read: {error}; a change of packages was interrupted: check that \
                 /usr/sbin/policy-rc.d is as it should be, then remove {PATH}"
            ))
        });
        read.map(Some)
    }

    /// Waits for the running act, removes what must not stay, and returns what is still to be completed.
    pub(super) fn take_up(machine: &Machine) -> Result<Self, OpError> {
        let Some(mut transaction) = Self::read(machine)? else { return Ok(Self::default()) };
        transaction.wait(machine)?;
        if let Some(watched) = transaction.keys.take() {
            watched.end(machine)?;
        }
        Ok(transaction)
    }

    /// Waits for the running act: stopping a package manager would leave the host in a worse state.
    pub(super) fn wait(&self, machine: &Machine) -> Result<(), OpError> {
        if let Some(act) = self.act.as_ref().filter(|_| machine.is_real())
            && transient::is_running(machine, act)?
        {
            // The unit has the program; this only sets the time to wait.
            let waits = Program::new("true").within(self.limit_s);
            // The installed packages show how it ended.
            machine.system().run_act(act, &waits)?;
        }
        Ok(())
    }

    /// Records the act before it starts, so that a later run waits for it.
    pub(super) fn works(&mut self, machine: &Machine, op: &Packages) -> Result<(), OpError> {
        (self.act, self.limit_s) = (machine.act().cloned(), op.limit_s());
        self.write(machine)
    }

    /// Whether an op has something to complete.
    pub(super) fn is_of(&self, op: &Packages) -> bool {
        self.act.is_some()
            || self.policy.is_some()
            || self.keys.is_some()
            || self.fresh.iter().any(|name| op.packages.contains_key(name))
    }

    pub(super) fn write(&self, machine: &Machine) -> Result<(), OpError> {
        let text = serde_json::to_vec(self)
            .map_err(|error| OpError::other(format!("{PATH} cannot be written as JSON: {error}")))?;
        machine.write_file(PATH, &text, Access::mode(0o600))
    }

    /// Writes what is still to be done, or removes the file if there is nothing.
    pub(super) fn leave(&self, machine: &Machine) -> Result<(), OpError> {
        if self.fresh.is_empty() && self.policy.is_none() && self.keys.is_none() {
            fsio::remove(&machine.path(PATH))
        } else {
            self.write(machine)
        }
    }
}
