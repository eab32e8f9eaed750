//! Which hosts must reach each other on which ports, and what a dial of them gave.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A port of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Port {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Its number.
    pub number: u16,
}

/// TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        write!(f, "{}/{protocol}", self.number)
    }
}

/// A port of another host that this one must reach.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dial {
    /// Name of the other host.
    pub to: String,
    /// Its address inside the cluster.
    pub address: IpAddr,
    /// Which.
    pub port: Port,
}

/// What a dial gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dialed {
    /// Which.
    pub dial: Dial,
    /// Why it was not reached; none when it was.
    pub blocked: Option<String>,
}
