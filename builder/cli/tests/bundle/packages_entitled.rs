//! Repositories that a vendor shows to subscribers only, by the certificate that a zone gives for its host.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use kubexm_spec::ExitCode;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;

use crate::packages::{Mirrors, rpm};
use crate::site::{Site, assert_contains};

struct Vendor {
    site: Site,
    address: String,
}

/// What a host has at a path.
pub enum Answer {
    File(Vec<u8>),
    /// It is at another address.
    Moved(String),
}

fn vendor(mirrors: Mirrors) -> Vendor {
    let Mirrors { site, files, .. } = mirrors;
    let address = host(&site, true, move |path| files.get(path).cloned().map(Answer::File));
    Vendor { site, address }
}

/// A host with TLS. One authority signs host and subscriber: `ca.pem`, `1.pem` and `1-key.pem` of the site.
pub fn host(
    site: &Site,
    subscribers_only: bool,
    answer: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static,
) -> String {
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "vendor");
    let own = authority.self_signed(&key).unwrap();
    site.write("ca.pem", own.pem());
    let issuer = Issuer::new(authority, key);
    let sign = |name: &str| {
        let key = KeyPair::generate().unwrap();
        (CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap(), key)
    };
    let (subscriber, subscribers) = sign("subscriber");
    site.write("1.pem", subscriber.pem());
    site.write("1-key.pem", subscribers.serialize_pem());
    let (host, hosts) = sign("127.0.0.1");

    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(own.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
    let hosts = PrivateKeyDer::try_from(hosts.serialize_der()).unwrap();
    let config = match subscribers_only {
        true => rustls::ServerConfig::builder().with_client_cert_verifier(verifier),
        false => rustls::ServerConfig::builder().with_no_client_auth(),
    };
    let config = Arc::new(config.with_single_cert(vec![host.der().clone()], hosts).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (config, answer) = (Arc::clone(&config), Arc::clone(&answer));
            std::thread::spawn(move || serve(stream, config, &*answer).ok());
        }
    });
    address
}

fn serve(
    stream: TcpStream,
    config: Arc<rustls::ServerConfig>,
    answer: &dyn Fn(&str) -> Option<Answer>,
) -> std::io::Result<()> {
    let connection = rustls::ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut tls = rustls::StreamOwned::new(connection, stream);
    let mut head = String::new();
    {
        let mut reader = BufReader::with_capacity(1, &mut tls);
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let (status, body) = match answer(path) {
        Some(Answer::File(body)) => ("200 OK".to_owned(), body),
        Some(Answer::Moved(to)) => (format!("302 Found\r\nlocation: {to}"), Vec::new()),
        None => ("404 Not Found".to_owned(), Vec::new()),
    };
    let length = body.len();
    write!(tls, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n")?;
    tls.write_all(&body)?;
    tls.conn.send_close_notify();
    tls.flush()
}

fn repositories() -> Mirrors {
    let mut mirrors = Mirrors::new();
    let base = "content/dist/rhel9/9/x86_64";
    mirrors.rocky(&format!("{base}/baseos/os"), 1, &rpm("app", ""), "");
    mirrors.rocky(&format!("{base}/appstream/os"), 0, "", "");
    mirrors
}

#[test]
fn repositories_of_a_subscription_are_read_with_its_client_certificate_only() {
    let Vendor { site, address } = vendor(repositories());
    let rule = |more: &str| {
        format!(
            "name: rhel\nrules:\n- {{match: cdn.redhat.com, to: [\"https://{address}\"], only: true, caFile: ca.pem{more}}}\n"
        )
    };
    site.write("zone.yaml", rule(", certFile: 1.pem, keyFile: 1-key.pem"));
    let resolve = || site.run(&["packages", "resolve", "app", "--os", "rhel-9", "--zone", "zone.yaml"]);
    assert_contains(&resolve().must(ExitCode::Ok).out, &["app 1-1.el9 x86_64", "1 packages"]);
    assert_contains(
        &site.run(&["zone", "show", "--zone", "zone.yaml"]).must(ExitCode::Ok).out,
        &["showing it", "1.pem"],
    );

    site.write("zone.yaml", rule(""));
    assert_contains(
        &resolve().must(ExitCode::OriginDenied).err,
        &["wants a client certificate", "certFile and keyFile"],
    );
    for (more, words) in [
        (", certFile: 1.pem", "give both, or none"),
        (", certFile: 1.pem, keyFile: 2-key.pem", "cannot be read"),
        (", certFile: 1.pem, keyFile: ca.pem", "holds no private key"),
    ] {
        site.write("zone.yaml", rule(more));
        assert_contains(&resolve().must(ExitCode::Config).err, &["zone.yaml", words]);
    }
}

#[test]
fn without_a_client_certificate_the_vendor_is_not_asked() {
    let site = Site::new();
    let ended = site.run(&["packages", "resolve", "socat", "--os", "rhel-9"]).must(ExitCode::OriginDenied);
    assert_contains(
        &ended.err,
        &["cdn.redhat.com", "client certificate of a subscription", "certFile", "redhat-uep.pem", "DVD"],
    );
}
