//! DNS servers in addition to the node's own.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// DNS servers in addition to the node's own, configured in the way that the node's resolver supports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resolver {
    /// In order.
    pub nameservers: Vec<String>,
}

/// The program that manages /etc/resolv.conf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Way {
    /// None: the file is edited.
    Plain,
    /// systemd-resolved: a drop-in is written.
    Resolved,
    /// NetworkManager: a drop-in is written, since it would overwrite the file at the next lease.
    NetworkManager,
}

/// The file with the servers, and whether it has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Servers {
    /// The program that manages /etc/resolv.conf.
    pub way: Way,
    /// The file with the servers.
    pub file: PathState,
    /// Whether it has the desired servers.
    pub settled: bool,
}

impl OpKind for Resolver {
    type State = Servers;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let servers = self.nameservers.join(" ");
        vec![
            ResourceChange::unknown(Resource::Path("/etc/resolv.conf".to_owned())),
            ResourceChange::sets(Resource::Nameservers, servers),
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

impl fmt::Display for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resolver {}", self.nameservers.join(" "))
    }
}

impl State for Servers {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        vec![&self.file]
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
