//! DNS messages, as far as a check needs them (RFC 1035), and the check whether a server answers names that nobody has.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Type A.
pub(crate) const ADDRESS: u16 = 1;
const PORT: u16 = 53;

/// A query with one question and recursion desired (4.1).
pub(crate) fn question(name: &str, id: u16, kind: u16) -> Option<Vec<u8>> {
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

fn word(message: &[u8], at: usize) -> Option<u16> {
    message.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]))
}

/// Number of records that answer the query.
pub(crate) fn answers(message: &[u8], id: u16) -> Result<u16, String> {
    let (Some(found), Some(flags), Some(count)) = (word(message, 0), word(message, 2), word(message, 6)) else {
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

/// The first IPv4 address of an answer.
fn address(message: &[u8], id: u16) -> Option<Ipv4Addr> {
    let count = answers(message, id).ok()?;
    let mut at = 12;
    for _ in 0..word(message, 4)? {
        at = after_name(message, at)? + 4;
    }
    for _ in 0..count {
        at = after_name(message, at)?;
        let (kind, length) = (word(message, at)?, usize::from(word(message, at + 8)?));
        at += 10;
        let data = message.get(at..at + length)?;
        if kind == ADDRESS {
            return Some(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?));
        }
        at += length;
    }
    None
}

/// Where a name ends: at a zero, or after a pointer (4.1.4).
fn after_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length if length >= 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

/// Asks every server for every name at once. The first address of each name that has one, and the server that gave it. A server
/// that needs longer than `limit` is taken for one that does not answer.
pub(crate) fn addresses(servers: &[IpAddr], names: &[String], limit: Duration) -> BTreeMap<String, (IpAddr, IpAddr)> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = servers
            .iter()
            .map(|server| scope.spawn(|| of_server(SocketAddr::new(*server, PORT), names, limit).unwrap_or_default()))
            .collect();
        let mut found = BTreeMap::new();
        for (server, asked) in servers.iter().zip(asked) {
            for (name, address) in asked.join().unwrap_or_default() {
                found.entry(name).or_insert((*server, IpAddr::from(address)));
            }
        }
        found
    })
}

fn of_server(server: SocketAddr, names: &[String], limit: Duration) -> std::io::Result<BTreeMap<String, Ipv4Addr>> {
    let any = if server.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    // Ids need not be secret: nothing is done with an answer but to report it.
    let ids: BTreeMap<u16, &String> = (0x4b00..).zip(names).collect();
    for (id, name) in &ids {
        if let Some(question) = question(name, *id, ADDRESS) {
            socket.send(&question)?;
        }
    }
    let (until, mut open, mut found) = (Instant::now() + limit, ids, BTreeMap::new());
    let mut message = [0; 1500];
    while !open.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        socket.set_read_timeout(Some(left))?;
        // A refusal, or silence.
        let Ok(length) = socket.recv(&mut message) else { break };
        let Some(id) = word(&message[..length], 0) else { continue };
        // A second answer to a question is one that came twice.
        let Some(name) = open.remove(&id) else { continue };
        if let Some(address) = address(&message[..length], id) {
            found.insert(name.clone(), address);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_queries_are_encoded_as_in_rfc_1035() {
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

    /// Answers every question with an alias and its address.
    fn answer(question: &[u8]) -> Vec<u8> {
        let mut message = question.to_vec();
        message[2..4].copy_from_slice(&[0x81, 0x80]);
        message[6..8].copy_from_slice(&[0, 2]);
        message.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 3, 1, b'x', 0]);
        message.extend([1, b'x', 0, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 7]);
        message
    }

    #[test]
    fn the_address_behind_an_alias_is_found_and_a_damaged_answer_has_none() {
        let message = answer(&question("a.bc", 7, 1).expect("a name"));
        assert_eq!(address(&message, 7), Some(Ipv4Addr::new(203, 0, 113, 7)));
        for length in 0..message.len() {
            assert_eq!(address(&message[..length], 7), None, "{length}");
        }
    }

    #[test]
    fn a_server_is_asked_for_every_name_and_one_that_refuses_is_not_waited_for() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let at = server.local_addr().expect("an address");
        std::thread::spawn(move || {
            let mut message = [0; 512];
            while let Ok((length, from)) = server.recv_from(&mut message) {
                let _ = server.send_to(&answer(&message[..length]), from);
            }
        });
        let names = ["one.test".to_owned(), "two.test".to_owned()];
        let long = Duration::from_secs(120);
        assert_eq!(of_server(at, &names, long).expect("asked").len(), 2);
        // It is nobody else's, and only its peer would be heard: to all others it is closed.
        let deaf = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        deaf.connect((Ipv4Addr::LOCALHOST, 9)).expect("a peer");
        let closed = deaf.local_addr().expect("an address");
        let begun = Instant::now();
        assert!(of_server(closed, &names, long).unwrap_or_default().is_empty());
        // One that is silent is waited for as long as is said.
        let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let at = silent.local_addr().expect("an address");
        assert!(of_server(at, &names, Duration::from_millis(20)).expect("asked").is_empty());
        assert!(begun.elapsed() < long / 2);
    }
}
