//! Connections between hosts that must work, and the results of testing them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

/// A port with its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Port {
    /// The protocol.
    pub protocol: Protocol,
    /// The port number.
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
pub struct ConnectionCheck {
    /// Name of the host to reach.
    pub to: String,
    /// Its address inside the cluster.
    pub address: IpAddr,
    /// The port.
    pub port: Port,
    /// For a connection as from a pod of the connecting host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodAddress>,
    /// PEM of a CA: the check succeeds only if who listens there has a certificate that it has signed. Nothing is sent to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// A router id of VRRP: in the network with the address it is listened for who announces that id already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<u8>,
}

/// The two ends of a connection as from a pod: addresses of the pod network that no pod has yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodAddress {
    /// Address of the pod.
    pub pod: Ipv4Addr,
    /// Address of the host's end of the link.
    pub host: Ipv4Addr,
}

/// The result of a dial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectionResult {
    /// The dial.
    pub dial: ConnectionCheck,
    /// Why the port was not reached; none if it was.
    pub blocked: Option<String>,
    /// The hardware address of the machine in this network that has the dialed address, if a connection failed and one answered
    /// for it (ARP): an address whose packets a firewall drops still belongs to somebody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<String>,
    /// Who announces the router id of the dial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<RouterAdvert>,
}

/// What one machine announces by VRRP (RFC 9568).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouterAdvert {
    /// The machine's own address.
    pub from: Ipv4Addr,
    /// The router id.
    pub router: u8,
    /// The addresses that the machine has or would take.
    pub addresses: Vec<Ipv4Addr>,
}
