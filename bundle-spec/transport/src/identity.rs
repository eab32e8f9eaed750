//! Who we are to a host that asks for a certificate of its clients: the entitlement of a subscription, say.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use zeroize::Zeroizing;

use crate::TransportError;
use crate::pem::certificates;
use kubexm_spec::error_chain;

/// Two files in PEM. They are read when a connection needs them; what is in them goes into no text and no error.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// Its private key, without a password.
    pub key: PathBuf,
}

impl Identity {
    /// Whether both files are what they should be: reported when a zone is read, not in the middle of a build.
    pub fn check(&self) -> Result<(), TransportError> {
        self.read().map(drop)
    }

    /// Other sections are passed over: the certificates of entitlements have some of their vendor's own.
    pub(crate) fn read(&self) -> Result<reqwest::Identity, TransportError> {
        let what = format!("client certificate {}", self.certificate.display());
        let mut pem = Zeroizing::new(String::new());
        for certificate in certificates(&file(&self.certificate, &what)?, &what)? {
            section(&mut pem, "CERTIFICATE", &certificate);
        }
        let what = format!("key {} of a client certificate", self.key.display());
        let wrong = |problem: &str| TransportError::Setting { what: what.clone(), problem: problem.to_owned() };
        let text = Zeroizing::new(file(&self.key, &what)?);
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|_| match is_locked(&text) {
            true => {
                wrong("is encrypted, which is not supported; write it without a password (openssl pkey), readable by you alone")
            }
            false => wrong("holds no private key (expected PEM, `-----BEGIN PRIVATE KEY-----`)"),
        })?;
        let label = match &key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        section(&mut pem, label, key.secret_der());
        reqwest::Identity::from_pem(pem.as_bytes()).map_err(|error| wrong(&error_chain(&error)))
    }
}

fn file(path: &Path, what: &str) -> Result<Vec<u8>, TransportError> {
    let unreadable = |error: std::io::Error| TransportError::Setting {
        what: what.to_owned(),
        problem: format!("cannot be read: {error}"),
    };
    crate::bounded::read(path).map_err(unreadable)
}

fn section(pem: &mut String, label: &str, der: &[u8]) {
    pem.push_str(&format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der)));
}

/// A key behind a password: PKCS #8's, or OpenSSL's older way (RFC 1421).
fn is_locked(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED")
}
