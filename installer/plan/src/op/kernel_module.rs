//! Kernel modules, now and at boot.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// Kernel modules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KernelModule {
    /// Drop-in below /etc/modules-load.d.
    pub path: String,
    /// `br_netfilter`, `overlay`.
    pub modules: Vec<String>,
}

/// The modules that are loaded, and the drop-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Modules {
    /// The drop-in.
    pub file: PathState,
    /// Whether the drop-in has the desired text.
    pub settled: bool,
    /// Whether each module is loaded or built in, by name.
    pub present: BTreeMap<String, bool>,
}

impl OpKind for KernelModule {
    type State = Modules;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let modules =
            self.modules.iter().map(|name| ResourceChange::sets(Resource::Module(name.clone()), "loaded").shared());
        std::iter::once(ResourceChange::file(&self.path, "modules")).chain(modules).collect()
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::RestoredAndMade
    }
}

impl fmt::Display for KernelModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "modules {} {}", self.path, self.modules.join(" "))
    }
}

impl State for Modules {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        vec![&self.file]
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
