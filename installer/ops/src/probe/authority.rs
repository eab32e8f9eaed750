//! Whether somebody at an address has a certificate that a CA has signed, with its key: the API server of a cluster that should be
//! gone. Only the handshake is begun, and it is ended before anything is sent.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::limited::Limited;

/// For the connection, and again for what is read and written of the handshake.
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
    let looking = Arc::new(Looking { inner, found: Mutex::default(), provider: Arc::clone(&provider) });
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::<Looking>::clone(&looking))
        .with_no_client_auth();
    let mut connection =
        ClientConnection::new(Arc::new(config), ServerName::from(address.ip())).map_err(|error| error.to_string())?;
    let socket = TcpStream::connect_timeout(&address, LIMIT).map_err(|error| error.to_string())?;
    let mut socket = Limited::new(socket, LIMIT, LIMIT);
    // It never completes: the verifier ends it.
    let ended = connection.complete_io(&mut socket).err();
    match looking.found.lock().map(|mut found| found.take()) {
        Ok(Some(Found::OfThis)) => Ok(()),
        Ok(Some(Found::OfAnother)) => Err("a certificate of another CA".to_owned()),
        Ok(Some(Found::Unproven)) => Err("a certificate of this CA without its key".to_owned()),
        _ => Err(ended.map_or_else(|| "no certificate".to_owned(), |error| error.to_string())),
    }
}

#[derive(Debug)]
enum Found {
    OfThis,
    OfAnother,
    /// A certificate of this CA; that its key is there was not shown.
    Unproven,
}

/// Looks at the certificate and at who has its key, and ends the handshake whatever they are.
#[derive(Debug)]
struct Looking {
    inner: Arc<WebPkiServerVerifier>,
    found: Mutex<Option<Found>>,
    provider: Arc<CryptoProvider>,
}

impl Looking {
    fn found(&self, found: Found) {
        if let Ok(mut place) = self.found.lock() {
            *place = Some(found);
        }
    }

    fn over() -> Error {
        Error::General("only its certificate was wanted".to_owned())
    }
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
            )) => Found::Unproven,
            Err(_) => Found::OfAnother,
        };
        let goes_on = matches!(found, Found::Unproven);
        self.found(found);
        // Certificates are public: their signature of the handshake is waited for.
        if goes_on { Ok(ServerCertVerified::assertion()) } else { Err(Self::over()) }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)?;
        self.found(Found::OfThis);
        Err(Self::over())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)?;
        self.found(Found::OfThis);
        Err(Self::over())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;
    use std::time::Instant;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::sign::{CertifiedKey, SingleCertAndKey};
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

    fn server(ca: &Ca) -> SocketAddr {
        server_with(ca, None)
    }

    /// A server with a certificate for another name, that has ended; and, maybe, with a key that is not the certificate's.
    fn server_with(ca: &Ca, other: Option<KeyPair>) -> SocketAddr {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["elsewhere.example".to_owned()]).expect("parameters");
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        let issuer = Issuer::from_params(&ca.1, &ca.0);
        let certificate = params.signed_by(&key, &issuer).expect("a certificate").der().clone();
        let key = PrivateKeyDer::try_from(other.unwrap_or(key).serialize_der()).expect("a key");
        let provider = rustls::crypto::ring::default_provider();
        let key = provider.key_provider.load_private_key(key).expect("a key");
        let shown = Arc::new(CertifiedKey::new(vec![certificate], key));
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
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
    fn a_copy_of_its_certificate_alone_is_not_the_cluster() {
        let own = ca();
        let copied = server_with(&own, Some(KeyPair::generate().expect("a key")));
        assert!(answers(copied, &own.2).is_some_and(|why| why.contains("without its key")));
    }

    #[test]
    fn who_sends_a_byte_at_a_time_gets_no_longer() {
        let own = ca();
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a caller");
            // The head of a record of 16 KiB, and then a byte each second.
            let mut sent = stream.write_all(&[22, 3, 3, 0x3f, 0xff]);
            while sent.is_ok() {
                std::thread::sleep(Duration::from_secs(1));
                sent = stream.write_all(&[0]);
            }
        });
        let begun = Instant::now();
        assert!(answers(address, &own.2).is_some());
        // Without an end for the whole it would be hours.
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
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
