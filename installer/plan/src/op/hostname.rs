//! The host's name, now and at boot.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// The host's name, now and at boot (cloud-init is configured not to change it).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hostname {
    /// DNS-1123.
    pub name: String,
}

/// The names and files as observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Names {
    /// The kernel's current name.
    pub live: String,
    /// The name in /etc/hostname.
    pub configured: Option<String>,
    /// /etc/hostname.
    pub file: PathState,
    /// The drop-in for cloud-init; none if cloud-init is not installed.
    pub preserve: Option<PathState>,
    /// Whether cloud-init keeps the name, or is not installed.
    pub preserved: bool,
}

impl OpKind for Hostname {
    type State = Names;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![
            ResourceChange::unknown(Resource::Path("/etc/hostname".to_owned())),
            ResourceChange::sets(Resource::Hostname, &self.name),
        ]
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

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hostname {}", self.name)
    }
}

impl State for Names {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        std::iter::once(&self.file).chain(&self.preserve).collect()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
