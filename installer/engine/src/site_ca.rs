//! Whether a CA of the user's site can sign for a cluster. Nothing here shows anything of its key.

use std::time::SystemTime;

use kubexm_spec::cluster::Validity;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::X509Extension;
use x509_parser::parse_x509_certificate;
use x509_parser::public_key::PublicKey;

/// Why a CA cannot sign for a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitCa {
    /// The text is not a certificate.
    #[error("its certificate cannot be read: {0}")]
    Unreadable(String),
    /// A certificate of a server, say.
    #[error("it is not a CA (basic constraints: CA)")]
    NotACa,
    /// Its key usage does not have keyCertSign (RFC 5280, section 4.2.1.3).
    #[error("it may not sign certificates (key usage: keyCertSign)")]
    MayNotSign,
    /// Its extended key usage limits what it signs: Go's verifier, and so Kubernetes', checks that of every certificate of a chain.
    #[error(
        "its extended key usage does not allow certificates of servers and of clients, both of which a cluster has"
    )]
    Purposes,
    /// Permitted or excluded names (RFC 5280, section 4.2.1.10).
    #[error(
        "it limits names (name constraints), and a cluster's certificates have names such as kubernetes.default.svc"
    )]
    Names,
    /// A critical extension that not every version of Go knows (RFC 5280, section 4.2: whoever does not know it must refuse).
    #[error("it has a critical extension ({0}) that components of the cluster may not know, and would refuse")]
    Critical(String),
    /// Ed25519, say: kubeadm reads RSA and ECDSA keys only.
    #[error("its key is neither RSA nor ECDSA, which are all that kubeadm reads")]
    KeyKind,
    /// Its validity begins later.
    #[error("it is valid from {0} only")]
    NotYet(String),
    /// Certificates that it signs would be valid longer than it is.
    #[error("it ends on {end}, and certificates that it signs now would be valid until {needed}")]
    EndsTooSoon {
        /// Its own end.
        end: String,
        /// That of what it signs.
        needed: String,
    },
    /// The key is another CA's.
    #[error("its key does not belong to its certificate")]
    OtherKey,
    /// What cannot be compared is not used. ring reads private RSA keys of at most 4096 bits.
    #[error(
        "its key cannot be read, or is of a kind that cannot be compared (RSA of 2048 to 4096 bits, ECDSA P-256 and P-384 can)"
    )]
    UnknownKey,
}

/// Everything that keeps a CA from signing. `key` is none where nothing will be signed by kubeadm any more.
pub fn unfit(certificate: &str, key: Option<&str>, now: SystemTime, leaves: Validity) -> Vec<UnfitCa> {
    let der = match CertificateDer::from_pem_slice(certificate.as_bytes()) {
        Ok(der) => der,
        Err(error) => return vec![UnfitCa::Unreadable(error.to_string())],
    };
    let ca = match parse_x509_certificate(&der) {
        Ok((_, ca)) => ca,
        Err(error) => return vec![UnfitCa::Unreadable(error.to_string())],
    };
    let mut found = of_certificate(&ca);
    found.extend(of_time(&ca, now.into(), leaves));
    // A certificate with a fault may be one that the comparison cannot read.
    let of_key =
        key.and_then(|key| of_key(&der, key)).filter(|fault| *fault != UnfitCa::UnknownKey || found.is_empty());
    found.extend(of_key);
    found
}

/// Key usage, subject's names, basic constraints, name constraints, policies, extended key usage.
const KNOWN: [&str; 6] = ["2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.30", "2.5.29.32", "2.5.29.37"];

fn of_certificate(ca: &X509Certificate<'_>) -> Vec<UnfitCa> {
    let mut found = Vec::new();
    // An extension that cannot be read allows nothing.
    if !ca.basic_constraints().ok().flatten().is_some_and(|found| found.value.ca) {
        found.push(UnfitCa::NotACa);
    }
    if !ca.key_usage().is_ok_and(|usage| usage.is_none_or(|usage| usage.value.key_cert_sign())) {
        found.push(UnfitCa::MayNotSign);
    }
    let both =
        |usage: &x509_parser::extensions::ExtendedKeyUsage<'_>| usage.any || usage.server_auth && usage.client_auth;
    if !ca.extended_key_usage().is_ok_and(|usage| usage.is_none_or(|usage| both(usage.value))) {
        found.push(UnfitCa::Purposes);
    }
    if !matches!(ca.name_constraints(), Ok(None)) {
        found.push(UnfitCa::Names);
    }
    found.extend(critical(ca).map(UnfitCa::Critical));
    if !matches!(ca.public_key().parsed(), Ok(PublicKey::RSA(_) | PublicKey::EC(_))) {
        found.push(UnfitCa::KeyKind);
    }
    found
}

/// The first critical extension that not every version of Go knows.
pub(crate) fn critical(certificate: &X509Certificate<'_>) -> Option<String> {
    let unknown =
        |extension: &&X509Extension<'_>| extension.critical && !KNOWN.contains(&extension.oid.to_id_string().as_str());
    certificate.extensions().iter().find(unknown).map(|extension| extension.oid.to_id_string())
}

fn of_time(ca: &X509Certificate<'_>, now: OffsetDateTime, leaves: Validity) -> Option<UnfitCa> {
    let (begin, end) = (ca.validity().not_before.to_datetime(), ca.validity().not_after.to_datetime());
    let needed = now + Duration::hours(leaves.hours().into());
    match () {
        () if begin > now => Some(UnfitCa::NotYet(text(begin))),
        () if end < needed => Some(UnfitCa::EndsTooSoon { end: text(end), needed: text(needed) }),
        () => None,
    }
}

/// A time for people, to the second.
pub(crate) fn text(time: OffsetDateTime) -> String {
    let whole = time.replace_nanosecond(0).unwrap_or(time);
    whole.format(&Rfc3339).unwrap_or_else(|_| whole.to_string())
}

fn of_key(der: &CertificateDer<'_>, key: &str) -> Option<UnfitCa> {
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).ok().and_then(|key| any_supported_type(&key).ok());
    let Some(key) = key else { return Some(UnfitCa::UnknownKey) };
    match CertifiedKey::new(vec![der.clone().into_owned()], key).keys_match() {
        Ok(()) => None,
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => Some(UnfitCa::OtherKey),
        Err(_) => Some(UnfitCa::UnknownKey),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, KeyPair,
        KeyUsagePurpose, NameConstraints, PKCS_ED25519,
    };

    use super::*;

    fn now() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_800_000_000).expect("a time")
    }

    fn found(change: impl FnOnce(&mut CertificateParams)) -> Vec<UnfitCa> {
        of(&KeyPair::generate().expect("a key"), change)
    }

    fn of(key: &KeyPair, change: impl FnOnce(&mut CertificateParams)) -> Vec<UnfitCa> {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        (params.not_before, params.not_after) = (now() - Duration::days(1), now() + Duration::days(366));
        change(&mut params);
        let certificate = params.self_signed(key).expect("a certificate").pem();
        unfit(&certificate, Some(&key.serialize_pem()), now().into(), Validity::OF_CERTIFICATES)
    }

    #[test]
    fn a_ca_that_can_sign_has_nothing_and_each_trouble_its_own() {
        assert_eq!(found(|_| ()), []);
        // Without the extension everything is allowed.
        assert_eq!(found(|params| params.key_usages.clear()), []);
        type Change = fn(&mut CertificateParams);
        let rows: [(Change, &str); 7] = [
            (|params| params.is_ca = IsCa::ExplicitNoCa, "not a CA"),
            (|params| params.key_usages = vec![KeyUsagePurpose::DigitalSignature], "keyCertSign"),
            (|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth], "extended key usage"),
            (
                |params| {
                    let permitted_subtrees = vec![GeneralSubtree::DnsName("corp.example".to_owned())];
                    params.name_constraints =
                        Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() });
                },
                "limits names",
            ),
            (
                |params| {
                    let mut inhibit = CustomExtension::from_oid_content(&[2, 5, 29, 54], vec![2, 1, 0]);
                    inhibit.set_criticality(true);
                    params.custom_extensions.push(inhibit);
                },
                "critical extension (2.5.29.54)",
            ),
            (|params| params.not_before = now() + Duration::hours(1), "valid from 2027-01-15T09:00:00Z only"),
            (|params| params.not_after = now() + Duration::days(364), "it ends on 2028-01-14T08:00:00Z"),
        ];
        for (change, said) in rows {
            let found = found(change);
            assert!(matches!(found.as_slice(), [one] if one.to_string().contains(said)), "{said}: {found:?}");
        }
        let both = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        assert_eq!(found(|params| params.extended_key_usages = both), []);
    }

    #[test]
    fn a_key_that_is_not_the_cas_is_seen_and_not_shown() {
        let (own, other) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.not_before, params.not_after) = (now(), now() + Duration::days(3650));
        let certificate = params.self_signed(&own).expect("a certificate").pem();
        let ask = |key: Option<&str>| unfit(&certificate, key, now().into(), Validity::OF_CERTIFICATES);
        assert_eq!(ask(None), []);
        assert_eq!(ask(Some(&own.serialize_pem())), []);
        assert_eq!(ask(Some(&other.serialize_pem())), [UnfitCa::OtherKey]);
        assert_eq!(ask(Some("hunter2")), [UnfitCa::UnknownKey]);
        let edwards = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        assert_eq!(of(&edwards, |_| ()), [UnfitCa::KeyKind]);
        let rsa = |pem: &str| unfit(pem, Some(pem), SystemTime::now(), Validity::OF_CERTIFICATES);
        assert_eq!(rsa(include_str!("../tests/it/data/site-ca-rsa-4096.pem")), []);
        assert_eq!(rsa(include_str!("../tests/it/data/site-ca-rsa-4608.pem")), [UnfitCa::UnknownKey]);
        assert!(matches!(
            unfit("hunter2", None, now().into(), Validity::OF_CERTIFICATES).as_slice(),
            [UnfitCa::Unreadable(_)]
        ));
    }
}
