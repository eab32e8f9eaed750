//! Another certificate of an authority: the same name, key and extensions, with a later end. Everything but the serial number and the end
//! is taken from the earlier one byte by byte, since verifiers compare the bytes of names (RFC 5280, section 7.1; Go's crypto/x509).

use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;
use x509_cert::Certificate;
use x509_cert::der::asn1::{BitString, GeneralizedTime, UtcTime};
use x509_cert::der::pem::LineEnding;
use x509_cert::der::{Decode as _, Encode as _, EncodePem as _};
use x509_cert::serial_number::SerialNumber;
use x509_cert::time::Time;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use kubexm_spec::Digest;

/// Signature algorithms (RFC 5758, RFC 8017) with what signs so.
const SCHEMES: [(&str, SignatureScheme); 5] = [
    ("1.2.840.113549.1.1.11", SignatureScheme::RSA_PKCS1_SHA256),
    ("1.2.840.113549.1.1.12", SignatureScheme::RSA_PKCS1_SHA384),
    ("1.2.840.113549.1.1.13", SignatureScheme::RSA_PKCS1_SHA512),
    ("1.2.840.10045.4.3.2", SignatureScheme::ECDSA_NISTP256_SHA256),
    ("1.2.840.10045.4.3.3", SignatureScheme::ECDSA_NISTP384_SHA384),
];
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
/// The last year that UTCTime has (RFC 5280, section 4.1.2.5).
const LAST_OF_UTC_TIME: i32 = 2049;

/// The certificate (PEM) anew, until `ends` (seconds of Unix time). It begins when the earlier one did: what that has signed stays within it.
///
/// # Errors
/// Why it cannot be: a text that is no certificate, one that another authority has signed, another key, a kind of key.
pub fn renewed(certificate: &str, key: &str, ends: i64) -> Result<String, String> {
    if certificate.matches(BEGIN).count() != 1 {
        return Err("it has not exactly one certificate".to_owned());
    }
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|error| error.to_string())?;
    // First: x509-cert makes room for what a length says before it looks whether that many bytes are there.
    X509Certificate::from_der(&der).map_err(|error| format!("its certificate cannot be read: {error}"))?;
    let mut one = Certificate::from_der(&der).map_err(|error| format!("its certificate cannot be read: {error}"))?;
    if one.tbs_certificate.issuer != one.tbs_certificate.subject {
        return Err("another authority has signed it, which has to renew it".to_owned());
    }
    let algorithm = one.signature_algorithm.oid.to_string();
    let (_, scheme) = SCHEMES.into_iter().find(|(oid, _)| *oid == algorithm).ok_or_else(|| {
        format!("it is signed with {algorithm}; RSA and ECDSA (P-256 and P-384) with SHA-2 can be renewed")
    })?;
    one.tbs_certificate.serial_number = serial(&der, ends)?;
    one.tbs_certificate.validity.not_after = time(ends)?;
    let signed = one.tbs_certificate.to_der().map_err(|error| error.to_string())?;
    one.signature = BitString::from_bytes(&sign(key, scheme, &signed)?).map_err(|error| error.to_string())?;
    let pem = one.to_pem(LineEnding::LF).map_err(|error| error.to_string())?;
    same_authority(certificate, &pem)?;
    Ok(pem)
}

/// Whether two certificates (PEM) are of one authority, so that either verifies what it has signed, and the second one is signed by it.
///
/// # Errors
/// How they differ; or a text has not exactly one: of several, the others would be lost.
pub fn same_authority(one: &str, other: &str) -> Result<(), String> {
    if let Some(count) = [one, other].map(|text| text.matches(BEGIN).count()).into_iter().find(|count| *count > 1) {
        return Err(format!("there are {count} certificates in one of the files, and only one would stay"));
    }
    let unreadable = |error: &dyn std::fmt::Display| format!("a certificate cannot be read: {error}");
    let ders = [one, other].map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()));
    let [one, other] = ders;
    let (one, other) = (one.map_err(|error| unreadable(&error))?, other.map_err(|error| unreadable(&error))?);
    let (_, one) = X509Certificate::from_der(&one).map_err(|error| unreadable(&error))?;
    let (_, other) = X509Certificate::from_der(&other).map_err(|error| unreadable(&error))?;
    if one.public_key().raw != other.public_key().raw {
        return Err("their keys are not the same".to_owned());
    }
    if one.subject().as_raw() != other.subject().as_raw() {
        return Err("their names are not the same".to_owned());
    }
    let extensions = |of: &X509Certificate<'_>| -> Vec<(String, bool, Vec<u8>)> {
        of.extensions().iter().map(|one| (one.oid.to_id_string(), one.critical, one.value.to_vec())).collect()
    };
    if extensions(&one) != extensions(&other) {
        return Err("their extensions are not the same".to_owned());
    }
    other.verify_signature(None).map_err(|_| "its key has not signed it".to_owned())
}

/// When a certificate (PEM) begins and ends, in seconds of Unix time; none where there is none.
pub(crate) fn period(pem: &str) -> Option<(i64, i64)> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let validity = certificate.validity();
    Some((validity.not_before.timestamp(), validity.not_after.timestamp()))
}

/// Whether an authority (PEM) has signed a certificate (PEM).
pub(crate) fn has_signed(authority: &str, certificate: &str) -> bool {
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).ok();
    let (Some(authority), Some(certificate)) = (der(authority), der(certificate)) else { return false };
    let read = |der| X509Certificate::from_der(der).map(|(_, read)| read).ok();
    let (Some(authority), Some(certificate)) = (read(&authority), read(&certificate)) else { return false };
    certificate.verify_signature(Some(authority.public_key())).is_ok()
}

/// Digest of the public key (SubjectPublicKeyInfo in DER) of the first certificate of a text (PEM); none where there is none.
pub(crate) fn public_key(pem: &[u8]) -> Option<Digest> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    Some(Digest::of(certificate.public_key().raw))
}

/// Follows from the earlier certificate and the end: a run that is resumed makes the same one with an RSA key (positive, 16 bytes; RFC 5280, section 4.1.2.2).
fn serial(der: &[u8], ends: i64) -> Result<SerialNumber, String> {
    let digest = Digest::of([der, &ends.to_be_bytes()].concat());
    let mut bytes = digest.as_bytes()[..16].to_vec();
    bytes[0] = bytes[0] & 0x7f | 0x40;
    SerialNumber::new(&bytes).map_err(|error| error.to_string())
}

fn time(seconds: i64) -> Result<Time, String> {
    let invalid = || format!("{seconds} is no time that a certificate can end at");
    let year = OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| invalid())?.year();
    let since = std::time::Duration::from_secs(u64::try_from(seconds).map_err(|_| invalid())?);
    if year > LAST_OF_UTC_TIME {
        return GeneralizedTime::from_unix_duration(since).map(Time::from).map_err(|_| invalid());
    }
    UtcTime::from_unix_duration(since).map(Time::from).map_err(|_| invalid())
}

/// Nothing of the key is in an error.
fn sign(key: &str, scheme: SignatureScheme, message: &[u8]) -> Result<Vec<u8>, String> {
    let unreadable = || {
        "its key cannot be read, or is of a kind that cannot sign here (RSA of 2048 to 4096 bits, ECDSA P-256 and P-384 can)"
            .to_owned()
    };
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| unreadable())?;
    let key = any_supported_type(&key).map_err(|_| unreadable())?;
    let signer = key.choose_scheme(&[scheme]).ok_or("its key is of another kind than its certificate")?;
    signer.sign(message).map_err(|_| "its key does not sign".to_owned())
}

#[cfg(test)]
mod tests;
