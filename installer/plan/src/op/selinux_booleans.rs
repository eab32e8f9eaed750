//! Booleans of SELinux's policy, on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// Booleans of SELinux's policy are on, now and at boot. A policy that lacks one restricts nothing that it would allow, so that is satisfied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelinuxBooleans {
    /// `haproxy_connect_any`.
    pub names: BTreeSet<String>,
}

/// The booleans that the loaded policy has, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyBooleans {
    /// Empty without SELinux.
    pub found: BTreeMap<String, PolicyBoolean>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyBoolean {
    /// Now.
    pub on: bool,
    /// At boot, where the host has another value than the policy itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_boot: Option<bool>,
}

impl OpKind for SelinuxBooleans {
    type State = PolicyBooleans;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let sets = |name: &String| ResourceChange::sets(Resource::SelinuxBoolean(name.clone()), "on");
        self.names.iter().map(sets).collect()
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

impl fmt::Display for SelinuxBooleans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        write!(f, "SELinux booleans {} on", names.join(", "))
    }
}

impl State for PolicyBooleans {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    /// A policy that is no longer there restricts nothing either.
    fn is_back(&self, then: &Self) -> Option<bool> {
        let is_as_then =
            |(name, was): (&String, &PolicyBoolean)| self.found.get(name).is_none_or(|now| now.on == was.on);
        Some(then.found.iter().all(is_as_then))
    }
}
