//! Signed certificate timestamps (RFC 6962): a log of certificates knows this one.

use kubexm_spec::Digest;
use pkcs8::der::asn1::AnyRef;
use pkcs8::der::{Decode, Encode, Length, Reader, SliceReader};
use x509_parser::extensions::ParsedExtension;

use super::certificate::read;
use super::trusted_root::{Authority, TrustedRoot};

/// The extension that holds the timestamps, as in DER (1.3.6.1.4.1.11129.2.4.2).
const TIMESTAMPS: [u8; 12] = [0x06, 0x0a, 0x2b, 0x06, 0x01, 0x04, 0x01, 0xd6, 0x79, 0x02, 0x04, 0x02];
const SEQUENCE: u8 = 0x30;
/// `[3]`, of the extensions of a certificate.
const EXTENSIONS: u8 = 0xa3;

/// Whether a log of the trusted root has signed that it knows the certificate.
pub(super) fn is_logged(der: &[u8], authority: &Authority, root: &TrustedRoot) -> Result<(), String> {
    let none = || "its certificate is in no certificate log of the trusted root".to_owned();
    let certificate = read(der)?;
    let body = without_timestamps(certificate.tbs_certificate.as_ref()).ok_or_else(none)?;
    let length = u32::try_from(body.len()).ok().filter(|length| *length < 1 << 24).ok_or_else(none)?;
    let issuers: Vec<Digest> = authority
        .chain
        .iter()
        .filter_map(|der| read(der).ok())
        .filter(|issuer| issuer.subject().as_raw() == certificate.issuer().as_raw())
        .map(|issuer| Digest::of(issuer.public_key().raw))
        .collect();
    let timestamps = certificate.extensions().iter().filter_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SCT(timestamps) => Some(timestamps),
        _ => None,
    });
    for timestamp in timestamps.flatten() {
        let log = Digest::from_bytes(*timestamp.id.key_id);
        let seconds = i64::try_from(timestamp.timestamp / 1000).unwrap_or(i64::MAX);
        let Some(key) = root.certificate_log(&log, seconds) else { continue };
        let extensions = timestamp.extensions.0;
        let Ok(extensions_length) = u16::try_from(extensions.len()) else { continue };
        for issuer in &issuers {
            // RFC 6962, 3.2: version, type of signature, time, type of entry, the issuer's key, the certificate, extensions.
            let mut signed = vec![timestamp.version.0, 0];
            signed.extend(timestamp.timestamp.to_be_bytes());
            signed.extend(1_u16.to_be_bytes());
            signed.extend(issuer.as_bytes());
            signed.extend(&length.to_be_bytes()[1..]);
            signed.extend(&body);
            signed.extend(extensions_length.to_be_bytes());
            signed.extend(extensions);
            if timestamp.version.0 == 0 && key.verifies(&signed, timestamp.signature.data) {
                return Ok(());
            }
        }
    }
    Err(none())
}

/// A TBSCertificate as the log saw it: without the extension that holds the log's answer.
pub(super) fn without_timestamps(tbs: &[u8]) -> Option<Vec<u8>> {
    let mut fields = Vec::new();
    for field in parts(tbs)? {
        match field.first() {
            Some(&EXTENSIONS) => {
                let [list] = parts(field)?.try_into().ok()?;
                let kept: Vec<&[u8]> = parts(list)?
                    .into_iter()
                    .filter(|extension| !content(extension).is_some_and(|content| content.starts_with(&TIMESTAMPS)))
                    .collect();
                fields.extend(wrap(EXTENSIONS, &wrap(SEQUENCE, &kept.concat())?)?);
            }
            _ => fields.extend(field),
        }
    }
    wrap(SEQUENCE, &fields)
}

/// What is between tag and end.
fn content(der: &[u8]) -> Option<&[u8]> {
    AnyRef::from_der(der).ok().map(|any| any.value())
}

/// The elements of a constructed one, each with its tag.
fn parts(der: &[u8]) -> Option<Vec<&[u8]>> {
    let mut reader = SliceReader::new(content(der)?).ok()?;
    let mut all = Vec::new();
    while !reader.is_finished() {
        all.push(reader.tlv_bytes().ok()?);
    }
    Some(all)
}

fn wrap(tag: u8, content: &[u8]) -> Option<Vec<u8>> {
    let mut der = vec![tag];
    der.extend(Length::try_from(content.len()).ok()?.to_der().ok()?);
    der.extend(content);
    Some(der)
}
