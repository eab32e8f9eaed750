//! Certificates of Fulcio: whom they are for, and whether an authority of the trusted root issued them.

use kubexm_spec::printable;
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert, ring as algorithms};
use x509_parser::asn1_rs::{FromDer, Oid, Utf8String, oid};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use super::trusted_root::Authority;

/// The issuer as text alone (Fulcio's `oid-info.md`).
const ISSUER: Oid<'static> = oid!(1.3.6.1.4.1.57264.1.1);
/// The same as a UTF8String in DER.
const ISSUER_V2: Oid<'static> = oid!(1.3.6.1.4.1.57264.1.8);
/// Code signing (RFC 5280), as in its DER.
const CODE_SIGNING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 3];

/// What certificates may be signed with.
static ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[
    algorithms::ECDSA_P256_SHA256,
    algorithms::ECDSA_P256_SHA384,
    algorithms::ECDSA_P384_SHA256,
    algorithms::ECDSA_P384_SHA384,
    algorithms::ED25519,
    algorithms::RSA_PKCS1_2048_8192_SHA256,
    algorithms::RSA_PKCS1_2048_8192_SHA384,
    algorithms::RSA_PKCS1_2048_8192_SHA512,
];

/// Whom a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CertifiedIdentity {
    pub issuer: String,
    pub subject: String,
    /// SubjectPublicKeyInfo in DER.
    pub key: Vec<u8>,
}

/// What a certificate says, whoever issued it.
pub(super) fn identity(der: &[u8]) -> Result<CertifiedIdentity, String> {
    let certificate = read(der)?;
    let broken = |what: &str| format!("its certificate {what}");
    let names = certificate.subject_alternative_name().map_err(|_| broken("cannot be read"))?;
    let subject = match names.as_ref().map(|names| names.value.general_names.as_slice()) {
        Some([GeneralName::RFC822Name(name) | GeneralName::URI(name)]) => (*name).to_owned(),
        _ => return Err(broken("is not for one mail address or URL")),
    };
    let usage = certificate.extended_key_usage().map_err(|_| broken("cannot be read"))?;
    if !usage.is_some_and(|usage| usage.value.code_signing) {
        return Err(broken("is not for signing code"));
    }
    let extension = |oid: &Oid<'_>| certificate.get_extension_unique(oid).map_err(|_| broken("has an extension twice"));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| broken("has an issuer that is no text"));
    let issuer = match (extension(&ISSUER_V2)?, extension(&ISSUER)?) {
        (Some(extension), _) => match Utf8String::from_der(extension.value) {
            Ok(([], issuer)) => issuer.string(),
            _ => return Err(broken("has an issuer that is no text")),
        },
        (None, Some(extension)) => text(extension.value)?,
        (None, None) => return Err(broken("does not say which issuer knew its owner")),
    };
    if [&issuer, &subject].into_iter().any(|text| *text != printable(text)) {
        return Err(broken("names its owner with characters that cannot be shown"));
    }
    Ok(CertifiedIdentity { issuer, subject, key: certificate.public_key().raw.to_vec() })
}

/// Reads exactly one certificate.
pub(super) fn read(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        _ => Err("its certificate cannot be read".to_owned()),
    }
}

/// Whether this authority issued it, and it was valid at this time (RFC 5280, path validation).
pub(super) fn is_issued_by(der: &[u8], authority: &Authority, time: i64) -> Result<(), String> {
    let seconds = u64::try_from(time).map_err(|_| "its log entry is from before 1970".to_owned())?;
    let failed = |e: webpki::Error| format!("its certificate was not issued by the trusted root at that time: {e}");
    let chain: Vec<CertificateDer<'_>> =
        authority.chain.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
    let Some((root, intermediates)) = chain.split_last() else {
        return Err("an authority without certificates".to_owned());
    };
    let anchor = anchor_from_trusted_cert(root).map_err(failed)?;
    let leaf = CertificateDer::from(der);
    let leaf = EndEntityCert::try_from(&leaf).map_err(failed)?;
    let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    // Authorities need not say what they issue for; of the certificate itself it is demanded by `identity`.
    let usage = KeyUsage::required_if_present(CODE_SIGNING);
    leaf.verify_for_usage(ALGORITHMS, &[anchor], intermediates, time, usage, None, None).map(drop).map_err(failed)
}
