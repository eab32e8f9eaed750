//! The one HTTPS client of a node: it must trust the given CA and nothing else.

#![allow(clippy::expect_used, clippy::panic, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use kubexm_ops::real::RealSystem;
use kubexm_ops::system::{HttpsRequest, HttpsServer, System};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

struct Server {
    url: String,
    ca: String,
}

impl Server {
    /// As a client that trusts this CA.
    fn at<'a>(&'a self, ca: &'a str) -> HttpsServer<'a> {
        HttpsServer { url: &self.url, ca: ca.as_bytes(), login: None }
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA")
}

fn serve(answer: &'static str) -> Server {
    serve_by(move |_| answer)
}

/// The configuration of a server on 127.0.0.1, and the CA of its certificate.
pub fn server() -> (ServerConfig, String) {
    let ca = authority();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("parameters");
    let cert = params.signed_by(&key, &ca).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .expect("a server");
    (config, ca.pem())
}

fn serve_by(answer: impl Fn(&str) -> &'static str + Send + 'static) -> Server {
    let (config, ca) = server();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("https://{}/v2/", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::new(config.clone())).expect("a connection");
            let mut stream = StreamOwned::new(connection, socket);
            let mut request = [0; 512];
            if let Ok(length) = stream.read(&mut request) {
                let answer = answer(&String::from_utf8_lossy(&request[..length]));
                let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
                // Closed with a part of the request unread, the kernel would say so and drop the answer.
                let _ = stream.sock.shutdown(std::net::Shutdown::Write);
                let _ = std::io::copy(&mut stream.sock, &mut std::io::sink());
            }
        }
    });
    Server { url, ca }
}

#[test]
fn the_status_is_what_the_server_answers() {
    let server = serve("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
    assert_eq!(RealSystem.https_get(&server.at(&server.ca)).expect("a status"), 200);
    let server = serve("HTTP/1.1 503 Service Unavailable\r\n\r\n");
    assert_eq!(RealSystem.https_get(&server.at(&server.ca)).expect("a status"), 503);
}

/// A request with an identity that the server does not ask for.
fn request(server: &Server, method: &str, body: &str) -> Result<(u16, Vec<u8>), String> {
    let own = rcgen::generate_simple_self_signed(vec!["node".to_owned()]).expect("a certificate");
    let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let request = HttpsRequest {
        method,
        url: &server.url,
        ca: server.ca.as_bytes(),
        certificate: certificate.as_bytes(),
        key: key.as_bytes(),
        login: None,
        body,
        content: None,
        accept: None,
        over: None,
    };
    RealSystem.https_request(&request).map(|answer| (answer.status, answer.body)).map_err(|error| error.full())
}

fn post(server: &Server) -> Result<(u16, Vec<u8>), String> {
    request(server, "POST", "{}")
}

#[test]
fn a_response_that_is_too_long_is_refused_and_not_cut_off() {
    let endless = serve(Box::leak(format!("HTTP/1.0 200 OK\r\n\r\n{}", "x".repeat(64 << 20)).into_boxed_str()));
    let text = request(&endless, "GET", "").expect_err("an error");
    assert!(text.contains(&endless.url) && text.contains("longer than 64 MiB"), "{text}");
}

#[test]
fn an_object_comes_with_its_status() {
    let there = serve("HTTP/1.0 200 OK\r\nContent-Length: 15\r\n\r\n{\"kind\":\"Node\"}");
    assert_eq!(request(&there, "GET", ""), Ok((200, b"{\"kind\":\"Node\"}".to_vec())));
    let absent = serve("HTTP/1.0 404 Not Found\r\nContent-Length: 2\r\n\r\n{}");
    assert_eq!(request(&absent, "GET", ""), Ok((404, b"{}".to_vec())));
}

#[test]
fn a_body_that_is_cut_off_is_no_answer_and_a_missing_goodbye_is_none_of_it() {
    let whole = serve("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}");
    assert_eq!(post(&whole), Ok((200, b"{}".to_vec())));
    let cut = serve("HTTP/1.0 200 OK\r\nContent-Length: 12\r\n\r\n{\"a\":");
    let error = post(&cut).expect_err("an error");
    assert!(error.contains("ends after 5 of 12 bytes"), "{error}");
    let error = post(&serve("HTTP/1.0 200 OK\r\nContent-Le")).expect_err("an error");
    assert!(error.contains("ends within its headers"), "{error}");
}

#[test]
fn heads_have_no_body_and_need_no_goodbye_and_a_head_that_is_cut_off_is_no_answer() {
    let ask = |server: &Server| {
        let url = server.url.trim_end_matches("/v2/");
        let server = HttpsServer { url, ..server.at(&server.ca) };
        RealSystem.https_heads(&server, &["/v2/a".to_owned()]).map_err(|error| error.full())
    };
    let digest = "sha256:aa";
    let whole = serve("HTTP/1.1 200 OK\r\nDocker-Content-Digest: sha256:aa\r\nContent-Length: 700\r\n\r\n");
    let heads = ask(&whole).expect("an answer");
    assert_eq!((heads[0].status, heads[0].digest.as_deref()), (200, Some(digest)));
    assert!(ask(&serve("HTTP/1.1 200 OK\r\nDocker-Content-Digest: sha")).is_err());
}

/// nginx ends a connection after so many requests.
#[test]
fn heads_go_on_when_the_server_ends_the_connection() {
    let server = serve_by(|request| match request.starts_with("HEAD /v2/a ") {
        true => "HTTP/1.1 200 OK\r\nDocker-Content-Digest: sha256:aa\r\nConnection: close\r\n\r\n",
        false => "HTTP/1.1 404 Not Found\r\nConnection: Close\r\n\r\n",
    });
    let url = server.url.trim_end_matches("/v2/");
    let paths = ["/v2/a", "/v2/b", "/v2/a"].map(str::to_owned);
    let heads = RealSystem.https_heads(&HttpsServer { url, ..server.at(&server.ca) }, &paths).expect("answers");
    assert_eq!(heads.iter().map(|head| head.status).collect::<Vec<_>>(), [200, 404, 200]);
}

/// A server that answers 200 to who shows this header, and 401 to everybody else.
#[test]
fn a_login_is_sent_with_each_request_and_to_who_has_none_the_server_says_so() {
    let server = serve_by(|request| match request.contains("\r\nAuthorization: Basic YTpiOmM=\r\n") {
        true => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        false => "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
    });
    let with = |login| HttpsServer { login, ..server.at(&server.ca) };
    let path = ["/v2/a".to_owned()];
    for (login, status) in [(None, 401), (Some("Basic YTpi"), 401), (Some("Basic YTpiOmM="), 200)] {
        assert_eq!(RealSystem.https_get(&with(login)).expect("a status"), status);
        let url = server.url.trim_end_matches("/v2/");
        let heads = RealSystem.https_heads(&HttpsServer { url, ..with(login) }, &path).expect("an answer");
        assert_eq!(heads[0].status, status);
        assert!(!format!("{:?}", with(login)).contains("YTpi"));
    }
}

#[test]
fn a_server_of_another_ca_is_not_trusted() {
    let server = serve("HTTP/1.1 200 OK\r\n\r\n");
    let other = authority().pem();
    let text = RealSystem.https_get(&server.at(&other)).expect_err("an error").full();
    assert!(text.contains("certificate"), "{text}");
}

#[test]
fn a_server_that_does_not_speak_http_is_reported() {
    let server = serve("220 smtp ready\r\n");
    let text = RealSystem.https_get(&server.at(&server.ca)).expect_err("an error").full();
    assert!(text.contains("does not speak HTTP/1.1"), "{text}");
}
