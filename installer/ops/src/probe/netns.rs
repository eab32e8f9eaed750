//! A DNS query and a connection from inside the network namespace of a pod.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::dns::{answers, question};
use crate::OpError;

const LIMIT: Duration = Duration::from_secs(5);
/// DNS record types A and AAAA (RFC 1035 3.2.2, RFC 3596 2.1).
const TYPES: [u16; 2] = [1, 28];

/// Runs on a separate thread, which alone changes its namespace and then ends.
pub(crate) fn check(pid: u32, name: &str, dns: &str, service: &str) -> Result<String, OpError> {
    let path = format!("/proc/{pid}/ns/net");
    let namespace = File::open(&path).map_err(OpError::path("open", &path))?;
    let asked = Asked::parse(name, dns, service)?;
    let inside = std::thread::spawn(move || -> Result<String, OpError> {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| OpError::Path { action: "enter the network namespace", path, source: error.into() })?;
        asked.from("a pod", "from inside a pod")
    });
    inside.join().unwrap_or_else(|_| Err(OpError::other("the check inside the pod's network ended unexpectedly")))
}

/// The same from this process's own network.
pub(crate) fn check_here(name: &str, dns: &str, service: &str) -> Result<String, OpError> {
    Asked::parse(name, dns, service)?.from("the host", "from the host")
}

struct Asked {
    name: String,
    dns: IpAddr,
    service: SocketAddr,
}

impl Asked {
    fn parse(name: &str, dns: &str, service: &str) -> Result<Self, OpError> {
        Ok(Self {
            name: name.to_owned(),
            dns: dns.parse().map_err(|_| OpError::other(format!("{dns:?} is not an address of a DNS server")))?,
            service: service.parse().map_err(|_| OpError::other(format!("{service:?} is not an address and port")))?,
        })
    }

    /// From the network of the calling thread; both texts are for messages.
    fn from(&self, who: &str, whence: &str) -> Result<String, OpError> {
        let Self { name, dns, service } = self;
        let count = resolve(who, name, SocketAddr::new(*dns, 53))?;
        TcpStream::connect_timeout(service, LIMIT).map_err(|error| {
            OpError::other(format!("{who} cannot connect to the service {service}: {error}; look at kube-proxy, or at Cilium where that does its work"))
        })?;
        Ok(format!("{whence} {name} has {count} addresses and {service} accepts a connection"))
    }
}

fn resolve(who: &str, name: &str, server: SocketAddr) -> Result<u16, OpError> {
    let failed = |what: &dyn std::fmt::Display| {
        OpError::other(format!("{who} cannot resolve {name} at the cluster DNS {server}: {what}; look at CoreDNS"))
    };
    let any = if server.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let socket = UdpSocket::bind((any, 0)).map_err(|error| failed(&error))?;
    socket.set_read_timeout(Some(LIMIT)).map_err(|error| failed(&error))?;
    socket.connect(server).map_err(|error| failed(&error))?;
    let mut last = String::from("no address in the answer");
    for (id, kind) in TYPES.iter().enumerate() {
        let id = u16::try_from(id).unwrap_or(0) + 0x4b00;
        let question = question(name, id, *kind).ok_or_else(|| failed(&"not a DNS name"))?;
        socket.send(&question).map_err(|error| failed(&error))?;
        let mut answer = [0; 1500];
        let count = socket.recv(&mut answer).map_err(|error| failed(&error))?;
        match answers(&answer[..count], id) {
            Ok(0) => {}
            Ok(count) => return Ok(count),
            Err(what) => last = what,
        }
    }
    Err(failed(&last))
}
