//! State of a systemd unit.

use std::collections::BTreeMap;
use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// State of a systemd unit. Its files are separate [`super::File`] ops, earlier in the same or an ancestor step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unit {
    /// `containerd.service`.
    pub name: String,
    /// Started at boot.
    pub enabled: bool,
    /// Whether it runs; none leaves that as it is (kubelet before `kubeadm init` crash-loops by design).
    pub running: Option<bool>,
    /// Paths whose current content the unit must have been started with. Their digests and the unit's invocation id are
    /// recorded under /run, so that a restart is a state, not a handler.
    pub loaded: Vec<String>,
    /// Paths whose content the unit reads again on a reload (`ExecReload=`): if only these change, it is reloaded and
    /// not restarted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reloaded: Vec<String>,
}

impl Unit {
    /// Every path whose current content the unit must have read, at its start or on a reload.
    pub fn files(&self) -> impl Iterator<Item = &String> {
        self.loaded.iter().chain(&self.reloaded)
    }
}

/// The observed state of the unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnitState {
    /// Whether systemd has a file for it.
    pub exists: bool,
    /// Started at boot.
    pub enabled: bool,
    /// Running.
    pub active: bool,
    /// Whether it was started with the current files.
    pub current: bool,
    /// Whether its unit files were changed since systemd read them.
    pub needs_reload: bool,
    /// Whether systemd has no file for it any more, and still runs it or remembers that it failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lingers: bool,
    /// systemd's invocation id; empty if it does not run.
    #[serde(default)]
    pub invocation: String,
    /// The record of its start; none if kubexm did not start it.
    pub record: Option<Started>,
}

/// The files that a unit was started with, or has reloaded since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Started {
    /// systemd's invocation id of that start.
    pub invocation: String,
    /// The kernel's boot id at that start.
    pub boot: String,
    /// Digests of its files, by path.
    pub loaded: BTreeMap<String, Digest>,
}

impl OpKind for Unit {
    type State = UnitState;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        // The result depends on its files and on whether it runs already.
        vec![ResourceChange::unknown(Resource::Unit(self.name.clone()))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = match self.running {
            Some(true) => ", running",
            Some(false) => ", stopped",
            None => "",
        };
        write!(f, "unit {} {}{running}", self.name, if self.enabled { "enabled" } else { "disabled" })?;
        if !self.loaded.is_empty() {
            write!(f, ", with {}", self.loaded.join(" "))?;
        }
        if self.reloaded.is_empty() { Ok(()) } else { write!(f, ", reloaded for {}", self.reloaded.join(" ")) }
    }
}

impl State for UnitState {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, then: &Self) -> Option<bool> {
        Some(self.enabled == then.enabled && self.active == then.active)
    }
}
