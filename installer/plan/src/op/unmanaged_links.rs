//! Links that the host's own network managers leave alone.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::ResourceChange;

/// Links that NetworkManager and systemd-networkd leave alone, each by a file of kubexm's, where the host has it. systemd-networkd also keeps routes
/// and rules of routing that others have made: otherwise it removes them when it starts again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnmanagedLinks {
    /// Names, or patterns with `*` and `?`.
    pub links: Vec<String>,
}

/// The files of those managers that the host has, and whether all of them are as desired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManagersFiles {
    /// None on a host without any of them.
    pub files: Vec<PathState>,
    /// Whether they have the desired content.
    pub settled: bool,
}

impl UnmanagedLinks {
    /// NetworkManager's.
    pub const NETWORK_MANAGER: &'static str = "/etc/NetworkManager/conf.d/90-kubexm-links.conf";
    /// Of systemd-networkd as a whole.
    pub const NETWORKD: &'static str = "/etc/systemd/networkd.conf.d/90-kubexm.conf";
    /// Of the links. The first file that matches a link is the only one.
    pub const NETWORKD_LINKS: &'static str = "/etc/systemd/network/00-kubexm.network";
}

impl OpKind for UnmanagedLinks {
    type State = ManagersFiles;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let of = |path| ResourceChange::file(path, format!("unmanaged {}", self.links.join(" ")));
        [Self::NETWORK_MANAGER, Self::NETWORKD, Self::NETWORKD_LINKS].map(of).into()
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

impl fmt::Display for UnmanagedLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unmanaged links {}", self.links.join(" "))
    }
}

impl State for ManagersFiles {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        self.files.iter().collect()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
