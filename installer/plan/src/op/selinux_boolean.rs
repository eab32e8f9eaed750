//! A boolean of SELinux's policy, on.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// A boolean of SELinux's policy is on, now and at boot. A policy that lacks it restricts nothing that it would allow, so that is satisfied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelinuxBoolean {
    /// `haproxy_connect_any`.
    pub name: String,
}

/// Whether the loaded policy has it, and on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyBoolean {
    /// None without SELinux, or where the policy does not have it.
    pub on: Option<bool>,
}

impl OpKind for SelinuxBoolean {
    type State = PolicyBoolean;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::sets(Resource::SelinuxBoolean(self.name.clone()), "on")]
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

impl fmt::Display for SelinuxBoolean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SELinux boolean {} on", self.name)
    }
}

impl State for PolicyBoolean {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, then: &Self) -> Option<bool> {
        Some(self == then)
    }
}
