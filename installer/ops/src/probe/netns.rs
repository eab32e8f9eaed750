//! A DNS question and a connection from inside the network namespace of a pod.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::OpError;

const LIMIT: Duration = Duration::from_secs(5);
/// DNS record types A and AAAA (RFC 1035 3.2.2, RFC 3596 2.1).
const TYPES: [u16; 2] = [1, 28];

/// On a thread of its own: only that thread changes its namespace, and it ends with it.
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

/// The same from the network that this program is in.
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

    /// From the network that the calling thread is in; both texts are for people.
    fn from(&self, who: &str, whence: &str) -> Result<String, OpError> {
        let Self { name, dns, service } = self;
        let count = resolve(who, name, SocketAddr::new(*dns, 53))?;
        TcpStream::connect_timeout(service, LIMIT).map_err(|error| {
            OpError::other(format!("{who} cannot connect to the service {service}: {error}; look at kube-proxy"))
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

/// A query with one question and recursion desired (RFC 1035 4.1).
fn question(name: &str, id: u16, kind: u16) -> Option<Vec<u8>> {
    let mut message = Vec::with_capacity(18 + name.len());
    for word in [id, 0x0100, 1, 0, 0, 0] {
        message.extend(word.to_be_bytes());
    }
    for label in name.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length))?;
        message.push(length);
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend(1u16.to_be_bytes());
    Some(message)
}

/// How many records answer our question.
fn answers(message: &[u8], id: u16) -> Result<u16, String> {
    let word = |at: usize| message.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
    let (Some(found), Some(flags), Some(count)) = (word(0), word(2), word(6)) else {
        return Err("the answer is too short".to_owned());
    };
    if found != id || flags & 0x8000 == 0 {
        return Err("the reply does not match the query".to_owned());
    }
    match flags & 0xf {
        0 => Ok(count),
        code => Err(format!("the server answers with code {code}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_what_rfc_1035_says() {
        let message = question("a.bc.", 7, 1).expect("a name");
        assert_eq!(message, [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 2, b'b', b'c', 0, 0, 1, 0, 1]);
        assert_eq!(question("a..b", 7, 1), None);
    }

    #[test]
    fn an_answer_to_another_question_or_an_error_code_is_not_an_address() {
        let good = [0, 7, 0x81, 0x80, 0, 1, 0, 2];
        assert_eq!(answers(&good, 7), Ok(2));
        assert!(answers(&good, 8).is_err());
        assert!(answers(&[0, 7, 0x81, 0x83, 0, 1, 0, 0], 7).is_err_and(|text| text.contains('3')));
        assert!(answers(&[0, 7], 7).is_err());
    }
}
