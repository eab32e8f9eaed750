//! A certificate chain and its key in one PEM file, and whether it can still be used.

use std::net::IpAddr;
use std::path::Path;

use kubexm_plan::CertificateUse;
use rcgen::{KeyPair, PublicKeyData as _};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use time::{Duration, OffsetDateTime};
use x509_parser::certificate::Validity;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;
use x509_parser::x509::AttributeTypeAndValue;

use crate::EngineError;

/// Hosts' clocks may be behind.
pub(crate) const BACKDATED: Duration = Duration::hours(1);
/// A certificate with less remaining validity is made anew, or with less than a quarter of its own, where that is shorter: one that was
/// just made is never due.
const RENEW_BEFORE: Duration = Duration::days(30);

const KEY_BEGINS: &str = "-----BEGIN PRIVATE KEY-----";

/// A chain and its key, both PEM.
pub(crate) struct Pair {
    pub(crate) certificates: String,
    pub(crate) key: String,
}

impl Pair {
    /// In the order of the file: key last.
    pub(crate) fn to_pem(&self) -> String {
        format!("{}{}", self.certificates, self.key)
    }
}

/// Reads the text of a file.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Pair, EngineError> {
    match text.find(KEY_BEGINS) {
        Some(at) if at > 0 => Ok(Pair { certificates: text[..at].to_owned(), key: text[at..].to_owned() }),
        _ => Err(damaged(path, "it does not hold a certificate and a key")),
    }
}

/// The part of a file before the key.
pub(crate) fn certificates(text: &str) -> &str {
    text.find(KEY_BEGINS).map_or(text, |at| &text[..at])
}

/// Whether a file has a certificate and the key that belongs to it: the first of each counts.
pub(crate) fn fits(text: &str) -> bool {
    let certificates = certificates(text);
    let Ok(der) = CertificateDer::from_pem_slice(certificates.as_bytes()) else { return false };
    let Ok((_, leaf)) = parse_x509_certificate(&der) else { return false };
    let key = text.get(certificates.len()..).and_then(|key| KeyPair::from_pem(key).ok());
    key.is_some_and(|key| key.subject_public_key_info() == leaf.public_key().raw)
}

/// When the first certificate of a text ends.
pub(crate) fn ends(path: &Path, certificates: &str) -> Result<OffsetDateTime, EngineError> {
    let unread = |reason: String| damaged(path, &format!("its authority cannot be read: {reason}"));
    let der = CertificateDer::from_pem_slice(certificates.as_bytes()).map_err(|error| unread(error.to_string()))?;
    let (_, certificate) = parse_x509_certificate(&der).map_err(|error| unread(error.to_string()))?;
    Ok(certificate.validity().not_after.to_datetime())
}

/// Whether a chain ends in this CA, has exactly this use, and is not due at this time.
pub(crate) fn serves(
    path: &Path,
    pair: &Pair,
    for_what: &CertificateUse,
    authority: &str,
    now: OffsetDateTime,
) -> Result<bool, EngineError> {
    if !pair.certificates.ends_with(authority) {
        return Ok(false);
    }
    let der = CertificateDer::from_pem_slice(pair.certificates.as_bytes())
        .map_err(|e| damaged(path, &format!("its certificate cannot be read: {e}")))?;
    let (_, leaf) =
        parse_x509_certificate(&der).map_err(|e| damaged(path, &format!("its certificate cannot be read: {e}")))?;
    let mut wanted = for_what.sans.clone();
    let mut found: Vec<String> = match leaf.subject_alternative_name() {
        Ok(Some(extension)) => extension.value.general_names.iter().filter_map(san_text).collect(),
        _ => Vec::new(),
    };
    wanted.sort();
    found.sort();
    let names = |attributes: Vec<&AttributeTypeAndValue<'_>>| -> Vec<String> {
        attributes.into_iter().filter_map(|name| name.as_str().ok().map(str::to_owned)).collect()
    };
    let subject = leaf.subject();
    let common = names(subject.iter_common_name().collect());
    let organizations = names(subject.iter_organization().collect());
    let client = leaf.extended_key_usage().ok().flatten().is_some_and(|usage| usage.value.client_auth);
    let same_subject = organizations == for_what.organizations
        && for_what.common_name.as_ref().is_none_or(|name| common == [name.as_str()]);
    Ok(wanted == found && same_subject && client == for_what.client && !is_due(leaf.validity(), now))
}

fn is_due(validity: &Validity, now: OffsetDateTime) -> bool {
    let (from, until) = (validity.not_before.to_datetime(), validity.not_after.to_datetime());
    until <= now + RENEW_BEFORE.min((until - from - BACKDATED) / 4)
}

/// A DNS name or an address of a certificate; none of other kinds.
pub(crate) fn san_text(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let address: Option<IpAddr> = <[u8; 4]>::try_from(*bytes)
                .map(IpAddr::from)
                .or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from))
                .ok();
            address.map(|a| a.to_string())
        }
        _ => None,
    }
}

fn damaged(path: &Path, reason: &str) -> EngineError {
    EngineError::Pki { path: path.to_owned(), reason: reason.to_owned() }
}
