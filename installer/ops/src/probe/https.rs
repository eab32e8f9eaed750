//! One HTTPS GET with a CA of our own: a node has no curl that could be relied on.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::OpError;

const LIMIT: Duration = Duration::from_secs(10);
/// More than any status line.
const HEAD_LIMIT: u64 = 4096;

/// The status of a GET.
pub(crate) fn get(url: &str, ca: &[u8]) -> Result<u16, OpError> {
    let bad = |what: &dyn std::fmt::Display| OpError::other(format!("{url}: {what}"));
    let rest = url.strip_prefix("https://").ok_or_else(|| bad(&"not an https URL"))?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = authority_parts(authority).ok_or_else(|| bad(&"no host and port in it"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca) {
        roots.add(certificate.map_err(|e| bad(&e))?).map_err(|e| bad(&e))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(&e))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|e| bad(&e))?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(|e| bad(&e))?;
    let address = (host, port).to_socket_addrs().map_err(|e| bad(&e))?.next().ok_or_else(|| bad(&"no address"))?;
    let socket = TcpStream::connect_timeout(&address, LIMIT).map_err(|e| bad(&e))?;
    socket.set_read_timeout(Some(LIMIT)).and_then(|()| socket.set_write_timeout(Some(LIMIT))).map_err(|e| bad(&e))?;
    let mut stream = StreamOwned::new(connection, socket);
    let request = format!(
        "GET /{path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: kubexm-install\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).map_err(|e| bad(&e))?;
    let mut head = Vec::new();
    let mut limited = stream.take(HEAD_LIMIT);
    let mut byte = [0];
    while !head.ends_with(b"\r\n") {
        if limited.read(&mut byte).map_err(|e| bad(&e))? == 0 {
            break;
        }
        head.push(byte[0]);
    }
    let line = String::from_utf8_lossy(&head);
    line.strip_prefix("HTTP/1.")
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|status| status.trim().parse().ok())
        .ok_or_else(|| bad(&format!("it does not speak HTTP/1.1: {:?}", line.trim())))
}

/// Host and port; an IPv6 address stands in brackets.
fn authority_parts(authority: &str) -> Option<(&str, u16)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        return Some((host, if port.is_empty() { 443 } else { port.strip_prefix(':')?.parse().ok()? }));
    }
    match authority.rsplit_once(':') {
        Some((host, port)) => Some((host, port.parse().ok()?)),
        None if authority.is_empty() => None,
        None => Some((authority, 443)),
    }
}
