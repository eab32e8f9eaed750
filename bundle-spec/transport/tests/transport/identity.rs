//! Hosts that ask for a certificate of their clients, as a vendor does that serves subscribers only.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use kubexm_spec::ExitCode;
use kubexm_transport::{Bearer, FileCandidate, Identity, TransportError};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::support::{client, provider};

/// An authority, and what it signs.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Authorities of one name are taken for one another until a signature does not fit.
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let own = params.self_signed(&key).unwrap();
        let (pem, der) = (own.pem(), own.der().clone());
        Self { issuer: Issuer::new(params, key), pem, der }
    }

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        (CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap(), key)
    }
}

/// A host of its own authority. Where `clients` is given, it serves those only whom that one has signed.
struct Host {
    address: String,
    /// Whether each connection showed a certificate.
    shown: Arc<Mutex<Vec<bool>>>,
    /// The `Authorization` header of each request.
    logins: Arc<Mutex<Vec<Option<String>>>>,
}

impl Host {
    fn start(own: &Authority, clients: Option<&Authority>, must: bool, answer: &str) -> Self {
        provider();
        let (leaf, key) = own.sign("127.0.0.1");
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let builder = ServerConfig::builder();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(clients.der.clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
                let verifier = if must { verifier } else { verifier.allow_unauthenticated() };
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let config = Arc::new(builder.with_single_cert(vec![leaf.der().clone()], key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, shown) = (listener.local_addr().unwrap().to_string(), Arc::new(Mutex::new(Vec::new())));
        let logins = Arc::new(Mutex::new(Vec::new()));
        let (seen, read, answer) = (Arc::clone(&shown), Arc::clone(&logins), answer.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (config, seen, answer) = (Arc::clone(&config), Arc::clone(&seen), answer.clone());
                let read = Arc::clone(&read);
                std::thread::spawn(move || serve(stream, config, (&seen, &read), &answer).ok());
            }
        });
        Self { address, shown, logins }
    }

    fn at(&self, path: &str, ca: &Path) -> FileCandidate {
        let url = format!("https://{}/{path}", self.address);
        FileCandidate { ca_file: Some(ca.to_owned()), ..FileCandidate::new(url) }
    }
}

fn serve(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    (seen, logins): (&Mutex<Vec<bool>>, &Mutex<Vec<Option<String>>>),
    answer: &str,
) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut tls = StreamOwned::new(connection, stream);
    let mut line = String::new();
    {
        let mut reader = BufReader::with_capacity(1, &mut tls);
        while !line.ends_with("\r\n\r\n") {
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
        }
    }
    let login = line.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization:"));
    logins.lock().unwrap().push(login.and_then(|line| Some(line.split_once(": ")?.1.to_owned())));
    seen.lock().unwrap().push(tls.conn.peer_certificates().is_some());
    tls.write_all(answer.as_bytes())?;
    tls.conn.send_close_notify();
    tls.flush()
}

const FILE: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nindex";

/// A subscription's two files, as a vendor writes them: with sections of its own behind the certificate.
fn subscription(dir: &Path, of: &Authority) -> Identity {
    let (leaf, key) = of.sign("subscriber");
    let own = "-----BEGIN ENTITLEMENT DATA-----\neJwBAgD9/wEC\n-----END ENTITLEMENT DATA-----\n";
    let identity = Identity { certificate: dir.join("1.pem"), key: dir.join("1-key.pem") };
    std::fs::write(&identity.certificate, format!("{}{own}", leaf.pem())).unwrap();
    std::fs::write(&identity.key, key.serialize_pem()).unwrap();
    identity
}

#[tokio::test]
async fn only_clients_with_the_certificate_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let (own, clients, others) = (Authority::new("own"), Authority::new("vendor"), Authority::new("other"));
    let ca = dir.path().join("ca.pem");
    std::fs::write(&ca, &own.pem).unwrap();
    let host = Host::start(&own, Some(&clients), true, FILE);
    let identity = Some(subscription(dir.path(), &clients));
    let with = FileCandidate { identity, ..host.at("repomd.xml", &ca) };
    let client = client();
    assert_eq!(client.get_small(&with, 100).await.unwrap(), b"index");

    let error = client.get_small(&host.at("repomd.xml", &ca), 100).await.unwrap_err();
    assert!(matches!(error, TransportError::ClientCertificate { .. }), "{error}");
    assert_eq!(error.exit_code(), ExitCode::OriginDenied);
    assert!(error.to_string().contains("certFile"), "{error}");

    let strange = tempfile::tempdir().unwrap();
    let identity = Some(subscription(strange.path(), &others));
    let error = client.get_small(&FileCandidate { identity, ..with.clone() }, 100).await.unwrap_err();
    assert!(matches!(error, TransportError::ClientCertificate { .. }), "{error}");
    assert_eq!(*host.shown.lock().unwrap(), [true]);
}

#[tokio::test]
async fn the_client_certificate_is_not_sent_to_other_hosts_even_after_a_redirect() {
    let dir = tempfile::tempdir().unwrap();
    let (own, clients) = (Authority::new("own"), Authority::new("vendor"));
    let ca = dir.path().join("ca.pem");
    std::fs::write(&ca, &own.pem).unwrap();
    let curious = Host::start(&own, Some(&clients), false, FILE);
    let to = format!(
        "HTTP/1.1 302 Found\r\nlocation: https://{}/x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        curious.address
    );
    let host = Host::start(&own, Some(&clients), true, &to);
    let identity = Some(subscription(dir.path(), &clients));
    let client = client();
    let error = client.get_small(&FileCandidate { identity, ..host.at("x", &ca) }, 100).await.unwrap_err();
    assert!(error.to_string().contains("the client certificate is shown to no other host"), "{error}");
    assert!(curious.shown.lock().unwrap().is_empty());
    // What is asked of another host by itself goes without.
    client.get_small(&curious.at("x", &ca), 100).await.unwrap();
    assert_eq!(*curious.shown.lock().unwrap(), [false]);
}

#[tokio::test]
async fn files_that_are_no_certificate_or_no_key_are_reported_by_name_and_never_by_content() {
    let dir = tempfile::tempdir().unwrap();
    let good = subscription(dir.path(), &Authority::new("vendor"));
    good.check().unwrap();
    let key = std::fs::read_to_string(&good.key).unwrap();
    let secret = key.lines().nth(1).unwrap();
    let with_key = |text: &str| {
        std::fs::write(&good.key, text).unwrap();
        let error = good.check().unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Config);
        assert!(!format!("{error} {error:?}").contains(secret), "{error:?}");
        error.to_string()
    };
    assert!(with_key(&key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")).contains("is encrypted"));
    assert!(with_key(&key.replace("PRIVATE KEY", "PUBLIC KEY")).contains("holds no private key"));
    assert!(with_key(&key[..key.len() / 2]).contains("1-key.pem of a client certificate: holds no private key"));
    std::fs::write(&good.key, &key).unwrap();
    std::fs::write(&good.certificate, &key).unwrap();
    assert!(good.check().unwrap_err().to_string().contains("1.pem: holds no certificate"));
    std::fs::remove_file(&good.certificate).unwrap();
    assert!(good.check().unwrap_err().to_string().contains("cannot be read"));
}

#[tokio::test]
async fn the_client_certificate_is_not_used_over_plain_http() {
    let dir = tempfile::tempdir().unwrap();
    let identity = Some(subscription(dir.path(), &Authority::new("vendor")));
    let at = FileCandidate { identity, plain_http_allowed: true, ..FileCandidate::new("http://127.0.0.1:9/x") };
    let error = client().get_small(&at, 10).await.unwrap_err();
    assert!(error.to_string().contains("over https only"), "{error}");
}

fn bearer() -> Option<Bearer> {
    Bearer::new(b"secret-token")
}

#[tokio::test]
async fn a_token_is_sent_to_its_host_and_to_no_other_even_after_a_redirect() {
    let dir = tempfile::tempdir().unwrap();
    let own = Authority::new("own");
    let ca = dir.path().join("ca.pem");
    std::fs::write(&ca, &own.pem).unwrap();
    let curious = Host::start(&own, None, false, FILE);
    let to = format!(
        "HTTP/1.1 302 Found\r\nlocation: https://{}/x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        curious.address
    );
    let host = Host::start(&own, None, false, &to);
    let at = FileCandidate { bearer: bearer(), ..host.at("x", &ca) };
    assert_eq!(client().get_small(&at, 100).await.unwrap(), b"index");
    assert_eq!(*host.logins.lock().unwrap(), [Some("Bearer secret-token".to_owned())]);
    assert_eq!(*curious.logins.lock().unwrap(), [None]);
}

#[tokio::test]
async fn a_token_is_not_sent_over_plain_http_nor_shown_in_an_error() {
    let at = FileCandidate { bearer: bearer(), plain_http_allowed: true, ..FileCandidate::new("http://127.0.0.1:9/x") };
    let error = client().get_small(&at, 10).await.unwrap_err();
    assert!(error.to_string().contains("a token is sent over https only"), "{error}");
    assert!(!format!("{error:?} {at:?}").contains("secret-token"), "{error:?}");
}
