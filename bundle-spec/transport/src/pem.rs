//! Certificates in PEM.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::TransportError;

/// Every certificate of a PEM text; a text without one is an error.
pub(crate) fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, TransportError> {
    let wrong = |problem: String| TransportError::Setting { what: what.to_owned(), problem };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|e| wrong(format!("is not PEM: {e}")))?;
    if found.is_empty() {
        return Err(wrong("holds no certificate (expected PEM, `-----BEGIN CERTIFICATE-----`)".to_owned()));
    }
    Ok(found)
}
