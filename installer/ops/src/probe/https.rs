//! HTTPS requests with a private CA, since a node may not have curl.

use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use zeroize::Zeroizing;

use super::limited::Limited;
use crate::OpError;
use crate::system::{Head, HttpsAnswer, HttpsRequest, HttpsServer};

/// For each read and write, and for the whole of a connection: hundreds of questions, or a long answer.
pub(super) const LIMIT: Duration = Duration::from_secs(10);
const WHOLE: Duration = Duration::from_secs(600);
/// The most addresses of a name that are tried, and the least time for each.
const MOST_ADDRESSES: usize = 9;
const SHORTEST: Duration = Duration::from_secs(2);
/// Longer than any response header.
const HEAD_LIMIT: u64 = 4096;
pub(super) const JSON: &str = "application/json";
/// Larger than any list of etcd members, or of pods in the checked namespaces.
pub(super) const ANSWER_LIMIT: u64 = 64 << 20;

/// The status of a GET.
pub(crate) fn get(server: &HttpsServer<'_>) -> Result<u16, OpError> {
    let url = server.url;
    let bad = |what: &dyn std::fmt::Display| OpError::other(format!("{url}: {what}"));
    let at = Address::parse(url)?;
    let mut stream = connect(url, &at, server.ca, None)?;
    let request = Zeroizing::new(format!(
        "GET /{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: kubexm-install\r\nAccept: */*\r\n{}Connection: close\r\n\r\n",
        at.path,
        at.authority,
        authorization(server.login).as_str()
    ));
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
    status(&head).ok_or_else(|| bad(&not_http(&head)))
}

/// The answer to a request with a client certificate. HTTP/1.0, so that the answer is not chunked.
pub(crate) fn request(request: &HttpsRequest<'_>) -> Result<HttpsAnswer, OpError> {
    let url = request.url;
    let bad = |what: &dyn std::fmt::Display| OpError::other(format!("{url}: {what}"));
    let at = Address::parse(url)?;
    let client = (!request.certificate.is_empty()).then_some((request.certificate, request.key));
    let mut stream = connect(url, &at, request.ca, client)?;
    let mut text = Zeroizing::new(format!(
        "{} /{} HTTP/1.0\r\nHost: {}\r\nUser-Agent: kubexm-install\r\nAccept: {}\r\n{}",
        request.method,
        at.path,
        at.authority,
        request.accept.unwrap_or(JSON),
        authorization(request.login).as_str()
    ));
    if !request.body.is_empty() {
        let length = request.body.len();
        let content = request.content.unwrap_or(JSON);
        text.push_str(&format!("Content-Type: {content}\r\nContent-Length: {length}\r\n"));
    }
    text.push_str("\r\n");
    text.push_str(request.body);
    stream.write_all(text.as_bytes()).map_err(|e| bad(&e))?;
    let mut answer = Vec::new();
    match stream.take(ANSWER_LIMIT).read_to_end(&mut answer) {
        // A server may close the connection without TLS's close_notify: the announced length shows whether the answer
        // is complete.
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => return Err(bad(&error)),
        _ => {}
    }
    if answer.len() as u64 >= ANSWER_LIMIT {
        return Err(bad(&format!("the response is longer than {} MiB", ANSWER_LIMIT >> 20)));
    }
    let status = status(&answer).ok_or_else(|| bad(&not_http(&answer)))?;
    let body = answer
        .windows(4)
        .position(|end| end == b"\r\n\r\n")
        .ok_or_else(|| bad(&"the response ends within its headers"))?;
    let body = answer.split_off(body + 4);
    let announced: Option<usize> = header(&answer, "content-length").and_then(|length| length.parse().ok());
    match announced {
        Some(whole) if body.len() < whole => {
            Err(bad(&format!("the response ends after {} of {whole} bytes", body.len())))
        }
        _ => Ok(HttpsAnswer { status, date: header(&answer, "date"), body }),
    }
}

/// Accepted media types of manifests; without the right one distribution answers "not found".
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.docker.distribution.manifest.v2+json";

/// The line of the login in a request; none without one.
fn authorization(login: Option<&str>) -> Zeroizing<String> {
    Zeroizing::new(login.map(|login| format!("Authorization: {login}\r\n")).unwrap_or_default())
}

/// Status and digest of each path, requested with HEAD on one connection, and on another when the server ends it: nginx does after
/// 1000 requests (`keepalive_requests`; before 1.19.10 after 100).
pub(crate) fn heads(server: &HttpsServer<'_>, paths: &[String]) -> Result<Vec<Head>, OpError> {
    let url = server.url;
    let at = Address::parse(url)?;
    let login = authorization(server.login);
    let mut open = None;
    let mut one = |path: &String| -> Result<Head, OpError> {
        let mut stream = match open.take() {
            Some(stream) => stream,
            None => std::io::BufReader::new(connect(url, &at, server.ca, None)?),
        };
        let asked = head(&mut stream, &at, path, &login);
        let (head, ends) = asked.map_err(|e| OpError::other(format!("{url}{path}: {e}")))?;
        open = (!ends).then_some(stream);
        Ok(head)
    };
    paths.iter().map(&mut one).collect()
}

/// The answer, and whether it is the connection's last.
fn head(
    stream: &mut std::io::BufReader<Stream>,
    at: &Address<'_>,
    path: &str,
    login: &str,
) -> std::io::Result<(Head, bool)> {
    let request = Zeroizing::new(format!(
        "HEAD {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: kubexm-install\r\nAccept: {MANIFESTS}\r\n{login}\r\n",
        at.authority
    ));
    stream.get_mut().write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let left = HEAD_LIMIT.saturating_sub(u64::try_from(answer.len()).unwrap_or(HEAD_LIMIT));
        if stream.by_ref().take(left).read_until(b'\n', &mut answer)? == 0 {
            return Err(std::io::Error::other("the response ends within its headers, or they are too long"));
        }
    }
    let status = status(&answer).ok_or_else(|| std::io::Error::other(not_http(&answer)))?;
    let ends = header(&answer, "connection").is_some_and(|word| word.eq_ignore_ascii_case("close"));
    Ok((Head { status, digest: header(&answer, "docker-content-digest") }, ends))
}

/// The first header of this name.
fn header(head: &[u8], wanted: &str) -> Option<String> {
    let text = String::from_utf8_lossy(head);
    let mut headers = text.lines().skip(1).filter_map(|line| line.split_once(':'));
    headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim().to_owned())
}

struct Address<'a> {
    authority: &'a str,
    host: &'a str,
    port: u16,
    path: &'a str,
}

impl<'a> Address<'a> {
    fn parse(url: &'a str) -> Result<Self, OpError> {
        let bad = |what: &str| OpError::other(format!("{url}: {what}"));
        let rest = url.strip_prefix("https://").ok_or_else(|| bad("not an https URL"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = authority_parts(authority).ok_or_else(|| bad("no host and port in it"))?;
        Ok(Self { authority, host, port, path })
    }
}

type Stream = StreamOwned<ClientConnection, Limited>;

fn connect(url: &str, at: &Address<'_>, ca: &[u8], identity: Option<(&[u8], &[u8])>) -> Result<Stream, OpError> {
    let bad = |what: &dyn std::fmt::Display| OpError::other(format!("{url}: {what}"));
    let config = config(url, ca, identity)?;
    let name = ServerName::try_from(at.host.to_owned()).map_err(|e| bad(&e))?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(|e| bad(&e))?;
    let addresses = (at.host, at.port).to_socket_addrs().map_err(|e| bad(&e))?;
    let socket = connected(addresses).map_err(|e| bad(&e))?;
    Ok(StreamOwned::new(connection, Limited::new(socket, LIMIT, WHOLE)))
}

/// TLS with these CAs alone, and with an identity.
pub(super) fn config(url: &str, ca: &[u8], identity: Option<(&[u8], &[u8])>) -> Result<ClientConfig, OpError> {
    let bad = |what: &dyn std::fmt::Display| OpError::other(format!("{url}: {what}"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca) {
        roots.add(certificate.map_err(|e| bad(&e))?).map_err(|e| bad(&e))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(&e))?
        .with_root_certificates(roots);
    match identity {
        None => Ok(config.with_no_client_auth()),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>().map_err(|e| bad(&e))?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| bad(&e))?;
            config.with_client_auth_cert(chain, key).map_err(|e| bad(&e))
        }
    }
}

/// The first address that answers, in their order: the control plane's name has those of all control planes, one of which may be lost.
fn connected(addresses: impl Iterator<Item = SocketAddr>) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "no address");
    // Who answers for the name does not decide how long this takes.
    let addresses: Vec<SocketAddr> = addresses.take(MOST_ADDRESSES).collect();
    let each = (LIMIT / u32::try_from(addresses.len().max(1)).unwrap_or(1)).max(SHORTEST);
    for address in addresses {
        match TcpStream::connect_timeout(&address, each) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn status(answer: &[u8]) -> Option<u16> {
    let line = String::from_utf8_lossy(answer.split(|byte| *byte == b'\n').next().unwrap_or_default());
    line.strip_prefix("HTTP/1.").and_then(|line| line.split(' ').nth(1)).and_then(|status| status.trim().parse().ok())
}

fn not_http(answer: &[u8]) -> String {
    let line = String::from_utf8_lossy(answer.split(|byte| *byte == b'\n').next().unwrap_or_default());
    format!("it does not speak HTTP/1.1: {:?}", line.trim())
}

/// Host and port; an IPv6 address is in brackets.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::net::TcpListener;

    use super::connected;

    #[test]
    fn an_address_where_nobody_listens_is_not_the_last_word() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        assert_eq!(connected([closed, open].into_iter()).unwrap().peer_addr().unwrap(), open);
        assert_eq!(connected([closed].into_iter()).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        assert!(connected(std::iter::empty()).is_err());
    }
}
