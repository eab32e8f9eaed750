//! Whether somebody at an address has a certificate that a CA has signed: the API server of a cluster that should be gone. Only the
//! handshake is begun, and it is ended before anything is sent.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

/// For the connection, and for each message of the handshake.
const LIMIT: Duration = Duration::from_secs(5);

/// None if somebody answers there with a certificate of this CA (PEM); otherwise what there is instead.
pub fn answers(address: SocketAddr, ca: &str) -> Option<String> {
    ask(address, ca).err()
}

fn ask(address: SocketAddr, ca: &str) -> Result<(), String> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        let added = certificate.map_err(|error| error.to_string()).map(|one| roots.add(one));
        added?.map_err(|error| format!("the certificate of the CA cannot be used: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let inner = verifier.map_err(|error| format!("the certificate of the CA cannot be used: {error}"))?;
    let looking = Arc::new(Looking { inner, found: Mutex::default() });
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::<Looking>::clone(&looking))
        .with_no_client_auth();
    let mut connection =
        ClientConnection::new(Arc::new(config), ServerName::from(address.ip())).map_err(|error| error.to_string())?;
    let mut socket = TcpStream::connect_timeout(&address, LIMIT).map_err(|error| error.to_string())?;
    let limited = socket.set_read_timeout(Some(LIMIT)).and_then(|()| socket.set_write_timeout(Some(LIMIT)));
    limited.map_err(|error| error.to_string())?;
    // It never completes: the verifier ends it.
    let ended = connection.complete_io(&mut socket).err();
    match looking.found.lock().map(|mut found| found.take()) {
        Ok(Some(Found::OfThis)) => Ok(()),
        Ok(Some(Found::OfAnother)) => Err("a certificate of another CA".to_owned()),
        _ => Err(ended.map_or_else(|| "no certificate".to_owned(), |error| error.to_string())),
    }
}

#[derive(Debug)]
enum Found {
    OfThis,
    OfAnother,
}

/// Looks at the certificate, and refuses it whatever it is.
#[derive(Debug)]
struct Looking {
    inner: Arc<WebPkiServerVerifier>,
    found: Mutex<Option<Found>>,
}

impl ServerCertVerifier for Looking {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // One that has ended is of the cluster, too.
        let within = X509Certificate::from_der(end_entity.as_ref())
            .ok()
            .and_then(|(_, certificate)| u64::try_from(certificate.validity().not_before.timestamp()).ok())
            .map_or(now, |begin| UnixTime::since_unix_epoch(Duration::from_secs(begin)));
        let found = match self.inner.verify_server_cert(end_entity, intermediates, name, ocsp, within) {
            Ok(_)
            | Err(Error::InvalidCertificate(
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. }
                | CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. },
            )) => Found::OfThis,
            Err(_) => Found::OfAnother,
        };
        if let Ok(mut place) = self.found.lock() {
            *place = Some(found);
        }
        Err(Error::General("only its certificate was wanted".to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only its certificate was wanted".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only its certificate was wanted".to_owned()))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        CryptoProvider::get_default().map_or_else(
            || rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes(),
            |provider| provider.signature_verification_algorithms.supported_schemes(),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ServerConfig, ServerConnection};

    use super::*;

    struct Ca(KeyPair, CertificateParams, String);

    fn ca() -> Ca {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Ca(key, params, pem)
    }

    /// A server with a certificate for another name, that has ended.
    fn server(ca: &Ca) -> SocketAddr {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["elsewhere.example".to_owned()]).expect("parameters");
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        let issuer = Issuer::from_params(&ca.1, &ca.0);
        let certificate = params.signed_by(&key, &issuer).expect("a certificate").der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a server");
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, config) = (stream.expect("a caller"), Arc::new(config.clone()));
                let mut connection = ServerConnection::new(config).expect("a connection");
                let _ = connection.complete_io(&mut stream);
            }
        });
        address
    }

    #[test]
    fn only_who_has_a_certificate_of_the_ca_is_found_whatever_its_name_and_its_end() {
        let (own, other) = (ca(), ca());
        assert_eq!(answers(server(&own), &own.2), None);
        assert_eq!(answers(server(&other), &own.2).as_deref(), Some("a certificate of another CA"));
    }

    #[test]
    fn what_speaks_no_tls_and_what_is_not_there_has_no_certificate() {
        let own = ca();
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || drop(listener.accept()));
        assert!(answers(address, &own.2).is_some());
        let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port").local_addr().expect("an address");
        assert!(answers(free, &own.2).is_some_and(|why| why.contains("refused")));
    }
}
