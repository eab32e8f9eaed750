//! Whether a signature is of an identity that the trusted root vouches for.

use super::certificate::{CertifiedIdentity, identity, is_issued_by};
use super::certificate_log::is_logged;
use super::key::ImageKey;
use super::signed::Signed;
use super::trusted_root::TrustedRoot;

/// Who signed, and when the log took it in.
pub(super) fn verified(signed: &Signed, root: &TrustedRoot) -> Result<(CertifiedIdentity, i64), String> {
    let certificate =
        signed.certificate.as_deref().ok_or("it was made with a key, and not with a certificate of Sigstore")?;
    let identity = identity(certificate)?;
    let key = ImageKey::from_spki(&identity.key)?;
    if !key.verifies(&signed.message, &signed.signature) {
        return Err("its signature is not by the key of its certificate".to_owned());
    }
    // A certificate is valid for minutes: without a trusted time it says nothing.
    let mut problem =
        "it has no log entry with a signed timestamp (timestamps of RFC 3161 and logs of Rekor v2 are not \
                       supported yet)"
            .to_owned();
    for entry in &signed.entries {
        let at = entry.proves(signed).and_then(|()| entry.logged(root));
        match at.and_then(|time| issued(certificate, root, time).map(|()| time)) {
            Ok(time) => return Ok((identity, time)),
            Err(other) => problem = other,
        }
    }
    Err(problem)
}

/// Whether an authority issued it, and a log of certificates knows it where the trusted root has one.
fn issued(certificate: &[u8], root: &TrustedRoot, time: i64) -> Result<(), String> {
    let mut problem = "the trusted root has no certificate authority for that time".to_owned();
    for authority in root.authorities(time) {
        let issued = is_issued_by(certificate, authority, time);
        let logged = |()| match root.demands_certificate_log() {
            true => is_logged(certificate, authority, root),
            false => Ok(()),
        };
        match issued.and_then(logged) {
            Ok(()) => return Ok(()),
            Err(other) => problem = other,
        }
    }
    Err(problem)
}
