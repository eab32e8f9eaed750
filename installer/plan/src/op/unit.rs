//! State of a systemd unit.

use std::collections::BTreeMap;
use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::kind::{AfterReset, Needs, OpKind, Scope, State};
use crate::place::Place;
use crate::touch::{Thing, Touch};

/// State of a systemd unit. Its files are [`super::File`] ops of their own, earlier in the same or an ancestor step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unit {
    /// `containerd.service`.
    pub name: String,
    /// Started at boot.
    pub enabled: bool,
    /// Running or not; none leaves it (kubelet before `kubeadm init` crash-loops by design).
    pub running: Option<bool>,
    /// Paths whose content the running unit must have been started with. Their digests and the unit's invocation
    /// id are recorded under /run, so a restart is a state, not a handler.
    pub loaded: Vec<String>,
    /// Paths whose content the running unit takes over when it is reloaded (`ExecReload=` of its file), without a new
    /// start: a change of these alone is a reload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reloaded: Vec<String>,
}

impl Unit {
    /// Every path whose content the running unit must have, by a start or a reload.
    pub fn files(&self) -> impl Iterator<Item = &String> {
        self.loaded.iter().chain(&self.reloaded)
    }
}

/// The unit as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnitState {
    /// systemd has a file for it.
    pub exists: bool,
    /// Started at boot.
    pub enabled: bool,
    /// Running.
    pub active: bool,
    /// It was started with the files as they are now.
    pub current: bool,
    /// Its files were changed since systemd read them.
    pub needs_reload: bool,
    /// systemd's id of this run of the unit; empty when it does not run.
    #[serde(default)]
    pub invocation: String,
    /// What we recorded at its start; none when it was not started by us.
    pub record: Option<Started>,
}

/// What a unit was started with, or has reloaded since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Started {
    /// systemd's id of that run of the unit.
    pub invocation: String,
    /// The kernel's id of the boot in which it was started.
    pub boot: String,
    /// Digests of its files, by path.
    pub loaded: BTreeMap<String, Digest>,
}

impl OpKind for Unit {
    type State = UnitState;

    fn touches(&self) -> Vec<Touch> {
        // Of its files and of whether it runs already depends what it is afterwards.
        vec![Touch::changes(Thing::Unit(self.name.clone()))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> Scope {
        Scope::Host
    }

    fn after_reset(&self) -> AfterReset {
        AfterReset::Restored
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

    fn places(&self) -> Vec<&Place> {
        Vec::new()
    }

    fn is_back(&self, then: &Self) -> Option<bool> {
        Some(self.enabled == then.enabled && self.active == then.active)
    }
}
