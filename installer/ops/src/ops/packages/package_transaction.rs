//! What must be finished or rolled back when packages were left in the middle (`/var/lib/kubexm/packages.json`).
//!
//! The state before a step says what to go back to. It does not say what of it is half-way right now: whether services are
//! forbidden to start by us, whose units are not switched off yet, which unit of systemd does the work.

use std::collections::BTreeSet;

use kubexm_plan::op::Packages;
use serde::{Deserialize, Serialize};

use super::keys::Watched;
use crate::fsio::{self, Access};
use crate::place::Place;
use crate::system::{ActContext, Program};
use crate::{Machine, OpError, transient};

const PATH: &str = "/var/lib/kubexm/packages.json";

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PackageTransaction {
    /// Packages that were not there and whose units are not switched off yet, by name.
    #[serde(default)]
    pub fresh: BTreeSet<String>,
    /// What lay where our policy lies now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Place>,
    /// Whom rpm must not trust in the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Watched>,
    /// What installs or removes right now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<ActContext>,
    /// Seconds that it may take.
    #[serde(default)]
    pub limit_s: u64,
}

impl PackageTransaction {
    /// None when nothing is half-way.
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

    /// What is half-way, after the end of what is doing it, and after what must not stay of it has gone.
    pub(super) fn take_up(machine: &Machine) -> Result<Self, OpError> {
        let Some(mut transaction) = Self::read(machine)? else { return Ok(Self::default()) };
        transaction.wait(machine)?;
        if let Some(watched) = transaction.keys.take() {
            watched.end(machine)?;
        }
        Ok(transaction)
    }

    /// Waits for the end of what works right now: a package manager that is stopped leaves a host worse than one that continues.
    pub(super) fn wait(&self, machine: &Machine) -> Result<(), OpError> {
        if let Some(act) = self.act.as_ref().filter(|_| machine.is_real())
            && transient::is_running(machine, act)?
        {
            // Its program is known to the unit; here it only gives the time to wait.
            let waits = Program::new("true").within(self.limit_s);
            // How it ended is seen by what is installed.
            machine.system().run_act(act, &waits)?;
        }
        Ok(())
    }

    /// Writes down which unit will work, before it does: who comes after a kill waits for it.
    pub(super) fn works(&mut self, machine: &Machine, op: &Packages) -> Result<(), OpError> {
        (self.act, self.limit_s) = (machine.act().cloned(), op.limit_s());
        self.write(machine)
    }

    /// Whether an op has something to finish.
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

    /// Keeps what is still to be done, and nothing where that is nothing.
    pub(super) fn leave(&self, machine: &Machine) -> Result<(), OpError> {
        if self.fresh.is_empty() && self.policy.is_none() && self.keys.is_none() {
            fsio::remove(&machine.path(PATH))
        } else {
            self.write(machine)
        }
    }
}
