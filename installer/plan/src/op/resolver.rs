//! DNS servers in addition to the node's own.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{AfterReset, Needs, OpKind, Scope, State};
use crate::place::Place;
use crate::touch::{Thing, Touch};

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
    pub file: Place,
    /// Whether it has the desired servers.
    pub settled: bool,
}

impl OpKind for Resolver {
    type State = Servers;

    fn touches(&self) -> Vec<Touch> {
        let servers = self.nameservers.join(" ");
        vec![Touch::changes(Thing::Path("/etc/resolv.conf".to_owned())), Touch::sets(Thing::Nameservers, servers)]
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> Scope {
        Scope::Host
    }

    fn after_reset(&self) -> AfterReset {
        AfterReset::RestoredAndMade
    }
}

impl fmt::Display for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resolver {}", self.nameservers.join(" "))
    }
}

impl State for Servers {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&Place> {
        vec![&self.file]
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
