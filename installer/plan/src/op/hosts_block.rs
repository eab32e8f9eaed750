//! kubexm's managed block in /etc/hosts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// kubexm's managed block in /etc/hosts; other lines with the node's own name (Debian's 127.0.1.1) are commented out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostsBlock {
    /// Lines `ADDRESS NAME [NAME…]` in order.
    pub lines: Vec<String>,
    /// The node's own name.
    pub own_name: String,
}

/// The file, and whether it has the desired content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hosts {
    /// /etc/hosts.
    pub file: PathState,
    /// Whether it has the block, and no other line with the node's own name.
    pub settled: bool,
}

impl OpKind for HostsBlock {
    type State = Hosts;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![
            ResourceChange::unknown(Resource::Path("/etc/hosts".to_owned())),
            ResourceChange::sets(Resource::HostNames, self.lines.join("; ")),
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

impl fmt::Display for HostsBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/etc/hosts of {}: {}", self.own_name, self.lines.join("; "))
    }
}

impl State for Hosts {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        vec![&self.file]
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
