//! DNS servers on top of the node's own.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{AfterReset, Needs, OpKind, Scope, State};
use crate::place::Place;
use crate::touch::{Thing, Touch};

/// DNS servers on top of the node's own, in the way the node's resolver wants it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resolver {
    /// In order.
    pub nameservers: Vec<String>,
}

/// Who owns /etc/resolv.conf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Way {
    /// Nobody: the file is edited.
    Plain,
    /// systemd-resolved: a drop-in.
    Resolved,
    /// NetworkManager writes it: a drop-in, else our lines last until the next lease.
    NetworkManager,
}

/// The file that carries our servers, and whether it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Servers {
    /// Who owns /etc/resolv.conf.
    pub way: Way,
    /// The file that carries our servers.
    pub file: Place,
    /// It does.
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
