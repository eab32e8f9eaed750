//! SELinux in permissive mode, or disabled.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// SELinux in permissive mode or disabled, now and at boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelinuxMode {}

/// The current mode and the configured one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Modes {
    /// Whether SELinux enforces; none without SELinux in the kernel.
    pub enforcing: Option<bool>,
    /// `SELINUX=` of the configuration.
    pub configured: Option<String>,
    /// The configuration file.
    pub config: PathState,
}

impl OpKind for SelinuxMode {
    type State = Modes;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![
            ResourceChange::unknown(Resource::Path("/etc/selinux/config".to_owned())),
            ResourceChange::sets(Resource::Selinux, "permissive"),
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

impl fmt::Display for SelinuxMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SELinux at most permissive")
    }
}

impl State for Modes {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        vec![&self.config]
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
