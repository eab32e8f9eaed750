//! Whether a certificate that a site's CA has signed is the one that was requested. Nothing here shows anything of a key.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::SystemTime;

use kubexm_plan::CertificateRequest;
use kubexm_plan::cluster_facts::Leaf;
use kubexm_spec::Digest;
use kubexm_spec::cluster::one_certificate;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use time::{Duration, OffsetDateTime};
use x509_parser::asn1_rs::Tag;
use x509_parser::certificate::X509Certificate;
use x509_parser::error::X509Error;
use x509_parser::parse_x509_certificate;
use x509_parser::x509::AttributeTypeAndValue;

use crate::pem::san_text;
use crate::site_ca::{critical, text};

/// Why a certificate cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignedFault {
    /// No certificate, or more than one.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// Another CA has signed it.
    #[error("it is not signed by the CA of spec.kubernetes.ca.certFile ({0})")]
    OtherCa(String),
    /// It was made for a request of another home, or for none.
    #[error("its key is not here: no request of this home was made with that key")]
    NoKey,
    /// Another user name.
    #[error("its common name is {found:?}, and {wanted:?} was requested")]
    CommonName {
        /// All that it has.
        found: String,
        /// The requested one.
        wanted: String,
    },
    /// A name that nobody can compare.
    #[error(
        "its subject has a name that cannot be read: use UTF8String or PrintableString for common name and organization"
    )]
    Name,
    /// Not in a group that it needs.
    #[error("its subject has no organization {0:?}, which was requested: the user would not be in that group")]
    Organization(String),
    /// In a group of Kubernetes' own that nobody has asked for.
    #[error("its subject has the organization {0:?}, which was not requested: the user would be in that group")]
    Group(String),
    /// A server that could not be reached by these.
    #[error("its subject alternative names lack {0}")]
    Names(String),
    /// Extended key usage.
    #[error("its extended key usage does not have {0}, which was requested")]
    Usage(&'static str),
    /// Key usage.
    #[error("its key usage does not have digitalSignature")]
    NoSignature,
    /// Basic constraints.
    #[error("it is a CA (basic constraints): whoever has its key could sign logins of this cluster")]
    IsCa,
    /// A critical extension that not every version of Go knows.
    #[error("it has a critical extension ({0}) that components of the cluster may not know, and would refuse")]
    Critical(String),
    /// Its validity begins later.
    #[error("it is valid from {0} only")]
    NotYet(String),
    /// It would have to be renewed at once.
    #[error("it ends on {end}, which is before {needed}")]
    EndsTooSoon {
        /// Its end, or the CA's if that is earlier.
        end: String,
        /// Until when it is needed.
        needed: String,
    },
}

/// A certificate that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// In PEM, as Go writes it.
    pub pem: String,
    /// Digest of its public key.
    pub public: Digest,
    /// When it ends, in seconds of Unix time.
    pub ends: i64,
    /// Which one it is.
    pub leaf: Leaf,
}

/// What certificates are compared with.
pub struct Wanted<'a> {
    /// The CA's certificate (PEM).
    pub ca: &'a str,
    /// The clock of this machine.
    pub now: SystemTime,
    /// How long each must be valid at least, in seconds.
    pub valid_s: i64,
    /// Whether the key of a public key is here.
    pub has_key: &'a dyn Fn(Digest) -> bool,
}

impl Wanted<'_> {
    /// The certificate, or everything that is wrong with it.
    ///
    /// # Errors
    /// It is not what was requested.
    pub fn check(&self, request: &CertificateRequest, text: &str) -> Result<Signed, Vec<SignedFault>> {
        let unreadable = |why: String| vec![SignedFault::Unreadable(why)];
        let pem = one_certificate(text).map_err(|why| unreadable(why.to_owned()))?;
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| unreadable(error.to_string()))?;
        let (rest, leaf) = parse_x509_certificate(&der).map_err(|error| unreadable(error.to_string()))?;
        if !rest.is_empty() {
            return Err(unreadable("it has bytes after the certificate, with which Kubernetes refuses it".to_owned()));
        }
        let of_ca = CertificateDer::from_pem_slice(self.ca.as_bytes());
        let of_ca = of_ca.map_err(|error| vec![SignedFault::OtherCa(format!("which cannot be read: {error}"))])?;
        let (_, ca) = parse_x509_certificate(&of_ca)
            .map_err(|error| vec![SignedFault::OtherCa(format!("which cannot be read: {error}"))])?;
        let public = public_of(&leaf);
        let mut faults: Vec<SignedFault> = signature(&leaf, &ca).into_iter().collect();
        if !(self.has_key)(public) {
            faults.push(SignedFault::NoKey);
        }
        faults.extend(subject(&leaf, request));
        faults.extend(uses(&leaf, request));
        let ends = leaf.validity().not_after.to_datetime();
        faults.extend(self.time(&leaf, ends.min(ca.validity().not_after.to_datetime())));
        let begins = leaf.validity().not_before.timestamp();
        match faults.is_empty() {
            true => {
                let leaf = Leaf { digest: Digest::of(&der), begins };
                Ok(Signed { pem, public, ends: ends.unix_timestamp(), leaf })
            }
            false => Err(faults),
        }
    }

    fn time(&self, leaf: &X509Certificate<'_>, ends: OffsetDateTime) -> Option<SignedFault> {
        let now = OffsetDateTime::from(self.now);
        let (begins, needed) = (leaf.validity().not_before.to_datetime(), now + Duration::seconds(self.valid_s));
        match () {
            () if begins > now => Some(SignedFault::NotYet(text(begins))),
            () if ends < needed => Some(SignedFault::EndsTooSoon { end: text(ends), needed: text(needed) }),
            () => None,
        }
    }
}

/// Digest of the public key of a text's first certificate, and its end in seconds of Unix time; none of what is no certificate.
pub fn of_text(text: &str) -> Option<(Digest, i64)> {
    let der = CertificateDer::from_pem_slice(text.as_bytes()).ok()?;
    let (_, certificate) = parse_x509_certificate(&der).ok()?;
    Some((public_of(&certificate), certificate.validity().not_after.timestamp()))
}

fn public_of(certificate: &X509Certificate<'_>) -> Digest {
    Digest::of(certificate.public_key().raw)
}

/// RSA and ECDSA with SHA-1, which Go refuses.
const SHA1: [&str; 3] = ["1.2.840.113549.1.1.5", "1.3.14.3.2.29", "1.2.840.10045.4.1"];

fn signature(leaf: &X509Certificate<'_>, ca: &X509Certificate<'_>) -> Option<SignedFault> {
    let of = |why: &str| Some(SignedFault::OtherCa(why.to_owned()));
    if leaf.issuer().as_raw() != ca.subject().as_raw() {
        return Some(SignedFault::OtherCa(format!("its issuer is {}, the CA is {}", leaf.issuer(), ca.subject())));
    }
    if SHA1.contains(&leaf.signature_algorithm.algorithm.to_id_string().as_str()) {
        return of("it is signed with SHA-1, which Kubernetes refuses: use SHA-256");
    }
    match leaf.verify_signature(Some(ca.public_key())) {
        Ok(()) => None,
        Err(X509Error::SignatureUnsupportedAlgorithm) => of(
            "its signature is of a kind that cannot be verified here: RSA with SHA-256, SHA-384 or SHA-512, and ECDSA with P-256 or P-384 \
                and SHA-256 or SHA-384, can",
        ),
        Err(_) => of("the signature is not of the CA's key"),
    }
}

fn subject(leaf: &X509Certificate<'_>, request: &CertificateRequest) -> Vec<SignedFault> {
    let names =
        |found: &mut dyn Iterator<Item = &AttributeTypeAndValue<'_>>| found.map(name).collect::<Option<Vec<_>>>();
    let common = names(&mut leaf.subject().iter_common_name());
    let organizations = names(&mut leaf.subject().iter_organization());
    let (Some(common), Some(organizations)) = (common, organizations) else {
        return vec![SignedFault::Name];
    };
    let organizations: BTreeSet<String> = organizations.into_iter().collect();
    let mut faults = Vec::new();
    if common != [request.common_name.as_str()] {
        let (found, wanted) = (common.join(", "), request.common_name.clone());
        faults.push(SignedFault::CommonName { found, wanted });
    }
    let lacks = request.organizations.iter().filter(|wanted| !organizations.contains(*wanted));
    faults.extend(lacks.map(|wanted| SignedFault::Organization(wanted.clone())));
    let is_own = |name: &&String| name.starts_with("system:") || name.starts_with("kubeadm:");
    let more = organizations.iter().filter(is_own).filter(|name| !request.organizations.contains(name));
    faults.extend(more.map(|name| SignedFault::Group(name.clone())));
    faults
}

/// A name of a subject, as Go reads it: BMPString is UTF-16, and TeletexString in fact Latin-1.
fn name(name: &AttributeTypeAndValue<'_>) -> Option<String> {
    let bytes = name.attr_value().data;
    match name.attr_value().tag() {
        Tag::BmpString => {
            let (units, rest) = bytes.as_chunks::<2>();
            let units: Vec<u16> = units.iter().copied().map(u16::from_be_bytes).collect();
            String::from_utf16(&units).ok().filter(|_| rest.is_empty())
        }
        Tag::T61String => Some(bytes.iter().copied().map(char::from).collect()),
        _ => name.as_str().ok().map(str::to_owned),
    }
}

fn uses(leaf: &X509Certificate<'_>, request: &CertificateRequest) -> Vec<SignedFault> {
    let mut faults = Vec::new();
    let names: BTreeSet<String> = match leaf.subject_alternative_name() {
        Ok(Some(extension)) => extension.value.general_names.iter().filter_map(san_text).collect(),
        _ => BTreeSet::new(),
    };
    let plain = |name: &String| name.parse::<IpAddr>().map_or_else(|_| name.clone(), |ip| ip.to_string());
    let lacks: Vec<String> = request.sans.iter().map(plain).filter(|name| !names.contains(name)).collect();
    if !lacks.is_empty() {
        faults.push(SignedFault::Names(lacks.join(", ")));
    }
    // Without the extension every use is allowed, to Go's verifier too.
    let allows = |usage: &x509_parser::extensions::ExtendedKeyUsage<'_>| {
        usage.any || if request.is_server() { usage.server_auth } else { usage.client_auth }
    };
    if !leaf.extended_key_usage().is_ok_and(|usage| usage.is_none_or(|usage| allows(usage.value))) {
        faults.push(SignedFault::Usage(request.usage()));
    }
    if !leaf.key_usage().is_ok_and(|usage| usage.is_none_or(|usage| usage.value.digital_signature())) {
        faults.push(SignedFault::NoSignature);
    }
    if leaf.basic_constraints().ok().flatten().is_some_and(|found| found.value.ca) {
        faults.push(SignedFault::IsCa);
    }
    faults.extend(critical(leaf).map(SignedFault::Critical));
    faults
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use kubexm_plan::Requested;
    use rcgen::{
        BasicConstraints, CertificateParams, CustomExtension, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa, Issuer,
        KeyPair, KeyUsagePurpose,
    };

    use super::*;

    fn now() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_800_000_000).expect("a time")
    }

    struct SiteCa {
        key: KeyPair,
        params: CertificateParams,
        pem: String,
    }

    fn site_ca(name: &str) -> SiteCa {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.not_before, params.not_after) = (now() - Duration::days(1), now() + Duration::days(3650));
        let pem = params.self_signed(&key).expect("a CA").pem();
        SiteCa { key, params, pem }
    }

    impl SiteCa {
        fn sign(&self, key: &KeyPair, params: &CertificateParams) -> String {
            let issuer = Issuer::from_params(&self.params, &self.key);
            params.signed_by(key, &issuer).expect("a certificate").pem()
        }
    }

    fn request() -> CertificateRequest {
        CertificateRequest {
            name: "node1-apiserver".into(),
            host: "node1".into(),
            of: Requested::Apiserver,
            common_name: "kube-apiserver".into(),
            organizations: vec!["system:some".into()],
            sans: vec!["10.0.0.1".into(), "kubernetes".into(), "fd00::1".into()],
        }
    }

    fn asked(request: &CertificateRequest) -> CertificateParams {
        let mut params = CertificateParams::new(request.sans.as_slice()).expect("names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, request.common_name.as_str());
        for one in &request.organizations {
            params.distinguished_name.push(DnType::OrganizationName, one.as_str());
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        (params.not_before, params.not_after) = (now() - Duration::hours(1), now() + Duration::days(200));
        params
    }

    fn faults(ca: &SiteCa, pem: &str, has_key: bool) -> Vec<SignedFault> {
        let has_key = move |_| has_key;
        let wanted = Wanted { ca: &ca.pem, now: now().into(), valid_s: 90 * 86_400, has_key: &has_key };
        match wanted.check(&request(), pem) {
            Ok(signed) => {
                assert_eq!(signed.ends, (now() + Duration::days(200)).unix_timestamp());
                assert_eq!(signed.leaf.begins, (now() - Duration::hours(1)).unix_timestamp());
                let der = CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
                assert_eq!(signed.leaf.digest, Digest::of(&der));
                Vec::new()
            }
            Err(faults) => faults,
        }
    }

    fn found(change: impl FnOnce(&mut CertificateParams)) -> Vec<SignedFault> {
        let (ca, key) = (site_ca("Site"), KeyPair::generate().expect("a key"));
        let mut params = asked(&request());
        change(&mut params);
        faults(&ca, &ca.sign(&key, &params), true)
    }

    #[test]
    fn names_are_read_in_every_kind_of_text_that_go_reads() {
        let bmp = |text: &str| DnValue::BmpString(text.try_into().expect("a name"));
        let teletex = |text: &str| DnValue::TeletexString(text.try_into().expect("a name"));
        for kind in [&bmp as &dyn Fn(&str) -> DnValue, &teletex] {
            let written = |groups: &[&str]| {
                found(|params| {
                    params.distinguished_name = rcgen::DistinguishedName::new();
                    params.distinguished_name.push(DnType::CommonName, kind("kube-apiserver"));
                    for group in groups {
                        params.distinguished_name.push(DnType::OrganizationName, kind(group));
                    }
                })
            };
            assert_eq!(written(&["system:some"]), []);
            // Who signs such a group makes a login of an administrator, in whatever it is written.
            let found = written(&["system:masters"]);
            assert!(found.contains(&SignedFault::Group("system:masters".to_owned())), "{found:?}");
        }
        let universal = found(|params| {
            let name = DnValue::UniversalString("kube-apiserver".try_into().expect("a name"));
            params.distinguished_name.push(DnType::CommonName, name);
        });
        assert_eq!(universal, [SignedFault::Name]);
    }

    #[test]
    fn bytes_after_the_certificate_are_refused_as_kubernetes_does() {
        let (ca, key) = (site_ca("Site"), KeyPair::generate().expect("a key"));
        let pem = ca.sign(&key, &asked(&request()));
        let mut der = CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate").to_vec();
        der.push(0);
        let text = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(der));
        let found = faults(&ca, &text, true);
        assert!(matches!(found.as_slice(), [SignedFault::Unreadable(why)] if why.contains("bytes after")), "{found:?}");
    }

    #[test]
    fn what_was_requested_has_no_fault_and_each_fault_is_named() {
        assert_eq!(found(|_| ()), []);
        // What Go's verifier allows.
        assert_eq!(found(|params| params.extended_key_usages.clear()), []);
        assert_eq!(found(|params| params.key_usages.clear()), []);
        assert_eq!(found(|params| params.is_ca = IsCa::ExplicitNoCa), []);
        assert_eq!(found(|params| params.distinguished_name.push(DnType::OrganizationalUnitName, "Ops")), []);
        type Change = fn(&mut CertificateParams);
        let rows: [(Change, &str); 10] = [
            (|params| params.distinguished_name.push(DnType::CommonName, "kube-apiserver2"), "\"kube-apiserver2\""),
            (
                |params| params.distinguished_name.remove(DnType::OrganizationName).then_some(()).expect("one"),
                "\"system:some\"",
            ),
            (
                |params| params.distinguished_name.push(DnType::OrganizationName, "system:masters"),
                "\"system:masters\", which was not",
            ),
            (|params| params.subject_alt_names.truncate(1), "lack kubernetes, fd00::1"),
            (|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth], "serverAuth"),
            (|params| params.key_usages = vec![KeyUsagePurpose::KeyEncipherment], "digitalSignature"),
            (|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained), "it is a CA"),
            (
                |params| {
                    let mut other = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
                    other.set_criticality(true);
                    params.custom_extensions.push(other);
                },
                "critical extension (1.2.3.4)",
            ),
            (|params| params.not_before = now() + Duration::hours(1), "valid from 2027-01-15T09:00:00Z only"),
            (|params| params.not_after = now() + Duration::days(89), "before 2027-04-15T08:00:00Z"),
        ];
        for (change, said) in rows {
            let found = found(change);
            assert!(found.iter().any(|one| one.to_string().contains(said)), "{said}: {found:?}");
        }
    }

    #[test]
    fn every_fault_of_a_certificate_is_reported_at_once() {
        let found = found(|params| {
            params.subject_alt_names.clear();
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params.not_after = now() + Duration::days(1);
        });
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn another_ca_another_key_and_another_text_are_refused() {
        let (ca, key) = (site_ca("Site"), KeyPair::generate().expect("a key"));
        let pem = ca.sign(&key, &asked(&request()));
        assert_eq!(faults(&ca, &pem, true), []);
        assert_eq!(faults(&ca, &pem, false), [SignedFault::NoKey]);
        let named = faults(&site_ca("Other"), &pem, true);
        assert!(matches!(named.as_slice(), [SignedFault::OtherCa(why)] if why.contains("CN=Other")), "{named:?}");
        let same_name = faults(&site_ca("Site"), &pem, true);
        assert!(
            matches!(same_name.as_slice(), [SignedFault::OtherCa(why)] if why.contains("CA's key")),
            "{same_name:?}"
        );
        for text in ["", "hunter2", &pem.repeat(2), &key.serialize_pem()] {
            let found = faults(&ca, text, true);
            assert!(matches!(found.as_slice(), [SignedFault::Unreadable(_)]), "{found:?}");
            assert!(!found[0].to_string().contains("hunter2"));
        }
        assert_eq!(of_text(&pem).map(|(_, ends)| ends), Some((now() + Duration::days(200)).unix_timestamp()));
        assert_eq!(of_text("hunter2"), None);
    }
}
