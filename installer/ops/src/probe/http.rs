//! Plain HTTP to a server of this host itself: what a proxy of ours says of the configuration that it runs with.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::OpError;

const LIMIT: Duration = Duration::from_secs(2);
/// Longer than any answer of ours with its header.
const ANSWER_LIMIT: u64 = 4096;

/// The body of the answer of `http://127.0.0.1:PORT/`; one that is not 200 is an error. HTTP/1.0, so that it is not chunked.
pub(crate) fn get(port: u16) -> Result<String, OpError> {
    let bad = |what: &dyn std::fmt::Display| OpError::other(format!("http://127.0.0.1:{port}/: {what}"));
    let mut socket =
        TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), LIMIT).map_err(|e| bad(&e))?;
    socket.set_read_timeout(Some(LIMIT)).and_then(|()| socket.set_write_timeout(Some(LIMIT))).map_err(|e| bad(&e))?;
    socket.write_all(b"GET / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").map_err(|e| bad(&e))?;
    let mut answer = Vec::new();
    socket.take(ANSWER_LIMIT).read_to_end(&mut answer).map_err(|e| bad(&e))?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| bad(&"it does not speak HTTP"))?;
    let line = head.lines().next().unwrap_or_default();
    match line.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(bad(&format!("it answers {line:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// What `get` makes of this answer.
    fn answered(answer: &'static str) -> Result<String, OpError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a connection");
            let mut request = [0; 64];
            let _ = socket.read(&mut request).expect("a request");
            socket.write_all(answer.as_bytes()).expect("an answer");
        });
        let found = get(port);
        server.join().expect("the server");
        found
    }

    #[test]
    fn only_an_answer_of_http_that_is_200_counts() {
        let found = answered("HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\nrevision 12ab\n").expect("an answer");
        assert_eq!(found, "revision 12ab\n");
        assert!(answered("HTTP/1.1 503 Service Unavailable\r\n\r\n").is_err());
        assert!(answered("SSH-2.0-OpenSSH\r\n").is_err());
    }
}
