use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P384_SHA384,
};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::*;
use crate::fake::{CA, CA_KEY};

/// 2033-05-18.
const ENDS: i64 = 2_000_000_000;

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["kubernetes".to_owned()]).expect("parameters");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn ends(pem: &str) -> i64 {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
    X509Certificate::from_der(&der).expect("a certificate").1.validity().not_after.timestamp()
}

#[test]
fn a_renewed_authority_is_the_same_one_with_another_end() {
    let renewed = renewed(CA, CA_KEY, ENDS).expect("renewed");
    assert_eq!(ends(&renewed), ENDS);
    assert_eq!(same_authority(CA, &renewed), Ok(()));
    // A run that is resumed makes it again.
    assert_eq!(super::renewed(CA, CA_KEY, ENDS).as_deref(), Ok(renewed.as_str()));
    assert_ne!(super::renewed(CA, CA_KEY, ENDS + 1).as_deref(), Ok(renewed.as_str()));
    // In the next century of UTCTime, too.
    let late = super::renewed(CA, CA_KEY, 2_600_000_000).expect("renewed");
    assert_eq!(ends(&late), 2_600_000_000);
}

#[test]
fn keys_of_elliptic_curves_as_go_and_others_write_them_sign() {
    for key in [KeyPair::generate(), KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384)] {
        let key = key.expect("a key");
        let ca = params("kubernetes").self_signed(&key).expect("a certificate").pem();
        let renewed = renewed(&ca, &key.serialize_pem(), ENDS).expect("renewed");
        assert_eq!((ends(&renewed), same_authority(&ca, &renewed)), (ENDS, Ok(())));
    }
    // `openssl ecparam -name prime256v1 -genkey`, in the form of Go's x509.MarshalECPrivateKey.
    let sec1 = include_str!("../../tests/data/authority-ec.pem");
    let (ca, key) = sec1.split_once("-----BEGIN EC PRIVATE KEY").expect("both");
    let renewed = renewed(ca, &format!("-----BEGIN EC PRIVATE KEY{key}"), ENDS).expect("renewed");
    assert_eq!(same_authority(ca, &renewed), Ok(()));
}

#[test]
fn what_an_authority_has_signed_is_valid_under_its_renewed_certificate() {
    let (key, leaf_key) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
    let ca = params("kubernetes");
    let pem = ca.self_signed(&key).expect("a certificate").pem();
    let leaf = CertificateParams::new(vec!["node1".to_owned()]).expect("parameters");
    let leaf = leaf.signed_by(&leaf_key, &Issuer::from_params(&ca, &key)).expect("a certificate");
    let renewed = renewed(&pem, &key.serialize_pem(), ENDS).expect("renewed");
    let der = CertificateDer::from_pem_slice(renewed.as_bytes()).expect("PEM");
    let (_, authority) = X509Certificate::from_der(&der).expect("a certificate");
    let (_, leaf) = X509Certificate::from_der(leaf.der()).expect("a certificate");
    assert_eq!(leaf.issuer().as_raw(), authority.subject().as_raw());
    assert!(leaf.verify_signature(Some(authority.public_key())).is_ok());
}

#[test]
fn what_cannot_be_renewed_is_refused_by_name_and_without_the_key() {
    let (key, other) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
    let ca = params("kubernetes").self_signed(&key).expect("a certificate").pem();
    let refused = |ca: &str, key: &str| renewed(ca, key, ENDS).expect_err("refused");
    assert_eq!(refused(&ca, &other.serialize_pem()), "its key has not signed it");
    assert!(refused(&ca, CA_KEY).contains("another kind"));
    assert!(refused(&ca, "no key").contains("cannot be read"));
    assert!(refused("no certificate", CA_KEY).contains("not exactly one certificate"));
    assert!(refused(&format!("{ca}{ca}"), &key.serialize_pem()).contains("not exactly one certificate"));
    let root = params("root");
    let under = params("kubernetes").signed_by(&key, &Issuer::from_params(&root, &other)).expect("a certificate").pem();
    assert!(refused(&under, &key.serialize_pem()).contains("another authority has signed it"));
    assert!(renewed(&ca, &key.serialize_pem(), -1).is_err());
}

/// A fuzzer's: a length in it leads far out of it, and x509-cert makes room for that before it looks.
#[test]
fn a_length_that_leads_out_of_the_certificate_is_refused_before_anything_is_made_of_it() {
    let der = include_bytes!("../../../../bundle-spec/archive/fuzz/corpus/certificate/long-name.der");
    let text = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", BASE64.encode(der));
    let text = renewed(&text, CA_KEY, ENDS).expect_err("refused");
    assert!(text.starts_with("its certificate cannot be read: Parsing Error"), "{text}");
}

#[test]
fn two_authorities_are_told_apart() {
    let (key, other) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
    let pem = |params: CertificateParams, key: &KeyPair| params.self_signed(key).expect("a certificate").pem();
    let ca = pem(params("kubernetes"), &key);
    let differ = |two: &str| same_authority(&ca, two).expect_err("another one");
    assert!(differ(&pem(params("kubernetes"), &other)).contains("keys"));
    assert!(differ(&pem(params("other"), &key)).contains("names"));
    let mut further = params("kubernetes");
    further.key_usages.push(KeyUsagePurpose::CrlSign);
    assert!(differ(&pem(further, &key)).contains("extensions"));
    assert!(differ("").contains("cannot be read"));
}
