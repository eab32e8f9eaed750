//! Signatures against the published vectors, and keys in forms that only hostile or careless hands make.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::slice::from_ref;

use kubexm_archive::Signature;
use kubexm_signing::{
    Algorithm, Password, Policy, PrivateKey, PublicKey, Signer, SigningError, Subject, Trust, check, with_added,
};
use kubexm_spec::{Digest, ExitCode, SignedAt};

/// RFC 6979, A.2.5.
const ECDSA: &str = "-----BEGIN EC PRIVATE KEY-----
MDECAQEEIMmvqdhFunUWa1whV2ex1pNOUMPbNuibEnuKYisSD2choAoGCCqGSM49
AwEH
-----END EC PRIVATE KEY-----
";
/// RFC 8032, 7.1, test 3.
const ED25519: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIMWqjfQ/n4N77bdELzHct7Fm04U1B28JS4XOOi4LRFj3
-----END PRIVATE KEY-----
";

fn private(text: &str) -> PrivateKey {
    PrivateKey::from_pem("test.key", text.as_bytes(), || Ok(None)).unwrap()
}

fn base64(hex: &str) -> String {
    use base64::Engine;
    let bytes: Vec<u8> =
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[test]
fn ecdsa_signatures_are_those_of_rfc_6979() {
    let signature = private(ECDSA).sign(b"sample");
    let (r, s) = (
        "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
        "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
    );
    assert_eq!(signature.sig, base64(&format!("3046022100{r}022100{s}")));
    assert_eq!(signature.alg, "ecdsa-p256-sha256");
}

#[test]
fn ed25519_signatures_are_those_of_rfc_8032() {
    let signature = private(ED25519).sign(&[0xaf, 0x82]);
    assert_eq!(
        signature.sig,
        base64(
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac\
             18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
        )
    );
    assert_eq!(signature.alg, "ed25519");
}

#[test]
fn a_key_has_one_id_in_whatever_form_it_comes() {
    let key = private(ECDSA).public();
    let spki = key.to_spki();
    assert_eq!(PublicKey::from_pem("x", key.to_pem().as_bytes()).unwrap(), key);
    assert_eq!(PublicKey::from_pem("x", key.to_pem().replace('\n', "\r\n").as_bytes()).unwrap(), key);
    let with_text = format!("some words before it\n{}", key.to_pem());
    assert_eq!(PublicKey::from_pem("x", with_text.as_bytes()).unwrap(), key);
    // The same point, compressed: 04 x y becomes 02 or 03 and x.
    let mut compressed = spki.clone();
    compressed.truncate(spki.len() - 32);
    let at = compressed.len() - 33;
    compressed[at] = 2 + (spki[spki.len() - 1] & 1);
    compressed[1] -= 32;
    compressed[at - 2] -= 32;
    let other = PublicKey::from_spki("x", &compressed).unwrap();
    assert_eq!((other.id(), other.to_spki()), (key.id(), spki));
}

#[test]
fn a_key_file_cut_or_flipped_anywhere_is_refused_or_another_key_and_never_a_panic() {
    for key in [private(ECDSA), private(ED25519)] {
        let (public, spki) = (key.public().to_pem(), key.public().to_spki());
        let secret = key.to_pem(None).unwrap();
        for at in 0..public.len() - 1 {
            assert!(PublicKey::from_pem("x", &public.as_bytes()[..at]).is_err(), "cut at {at}");
        }
        for at in 0..secret.len() - 1 {
            assert!(PrivateKey::from_pem("x", &secret.as_bytes()[..at], || Ok(None)).is_err(), "cut at {at}");
        }
        for at in 0..spki.len() {
            let mut bad = spki.clone();
            bad[at] ^= 1;
            assert_ne!(PublicKey::from_spki("x", &bad).ok(), Some(key.public()), "flipped at {at}");
        }
    }
}

#[test]
fn a_key_for_which_anybody_can_sign_is_refused() {
    let mut spki = private(ED25519).public().to_spki();
    let at = spki.len() - 32;
    spki[at..].fill(0);
    spki[at] = 1; // The neutral element.
    let error = PublicKey::from_spki("weak.pub", &spki).unwrap_err();
    assert!(error.to_string().contains("weak"), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Config);
}

#[test]
fn what_was_encrypted_opens_with_its_password_only_and_is_asked_for_only_then() {
    let password = || Ok(Some(Password::new(b"sesame".to_vec())));
    for algorithm in [Algorithm::EcdsaP256, Algorithm::Ed25519] {
        let key = PrivateKey::generate(algorithm).unwrap();
        let locked = key.to_pem(Some(&Password::new(b"sesame".to_vec()))).unwrap();
        let again = PrivateKey::from_pem("k", locked.as_bytes(), password).unwrap();
        assert_eq!(again.public(), key.public());
        let wrong = PrivateKey::from_pem("k", locked.as_bytes(), || Ok(Some(Password::new(b"Sesame".to_vec()))));
        assert!(matches!(wrong, Err(SigningError::WrongPassword { .. })));
        let none = PrivateKey::from_pem("k", locked.as_bytes(), || Ok(None));
        assert!(matches!(none, Err(SigningError::PasswordNeeded { .. })));
        let plain = key.to_pem(None).unwrap();
        PrivateKey::from_pem("k", plain.as_bytes(), || unreachable!("asked for a password without need")).unwrap();
    }
    let (one, other) =
        (PrivateKey::generate(Algorithm::Ed25519).unwrap(), PrivateKey::generate(Algorithm::Ed25519).unwrap());
    assert_ne!(one.public(), other.public());
    assert!(!format!("{one:?}").contains(&one.to_pem(None).unwrap()[40..60]));
}

const fn about(manifest_json: &[u8]) -> Subject<'_> {
    Subject { manifest_json, sources: None }
}

#[test]
fn a_statement_holds_for_this_manifest_and_these_sources_and_tells_its_date() {
    let key = private(ECDSA);
    let (sources, others) = (Digest::of(b"sources"), Digest::of(b"other sources"));
    let subject = |sources| Subject { manifest_json: b"{}", sources };
    let signed = |subject: Subject<'_>, date| {
        let text = subject.statement(SignedAt { date, sequence: None }).to_text();
        Signature { statement: Some(text.clone()), ..key.sign(text.as_bytes()) }
    };
    let state = |signature: &Signature, subject: &Subject<'_>| check(from_ref(signature), subject, &[key.public()]);
    let valid = |date| {
        let signed = Some(SignedAt { date, sequence: None });
        Trust::Valid { by: vec![Signer { key: key.public().id(), signed }], others: vec![] }
    };
    let with = signed(subject(Some(sources)), 77);
    assert_eq!(state(&with, &subject(Some(sources))), valid(77));
    assert_eq!(state(&with, &subject(None)), valid(77), "they may be left out");
    let bad = |signature: &Signature, subject: Subject<'_>| matches!(state(signature, &subject), Trust::Invalid { .. });
    assert!(bad(&with, subject(Some(others))));
    assert!(bad(&with, Subject { manifest_json: b"{ }", sources: Some(sources) }));
    assert!(bad(&signed(subject(None), 77), subject(Some(sources))), "added after it was signed");
    // Neither its text nor the kind of signature can be changed.
    let later = subject(Some(sources)).statement(SignedAt { date: 78, sequence: None }).to_text();
    assert!(bad(&Signature { statement: Some(later), ..with.clone() }, subject(Some(sources))));
    assert!(bad(&Signature { statement: None, ..with.clone() }, subject(Some(sources))));
    let of_manifest = key.sign(b"{}");
    assert!(bad(&of_manifest, subject(Some(sources))), "nobody has signed these sources");
    assert!(!bad(&of_manifest, subject(None)));
    assert!(bad(&Signature { statement: with.statement.clone(), ..of_manifest }, subject(Some(sources))));
}

#[test]
fn a_signature_holds_for_these_bytes_this_key_and_this_algorithm() {
    let (key, other) = (private(ECDSA), private(ED25519));
    let signature = key.sign(b"{}");
    let trusted = [key.public(), other.public()];
    let state = |signatures: &[Signature], message: &[u8]| check(signatures, &about(message), &trusted);
    let signer = |key: &PrivateKey| Signer { key: key.public().id(), signed: None };
    assert_eq!(state(&[], b"{}"), Trust::Unsigned);
    assert_eq!(state(from_ref(&signature), b"{}"), Trust::Valid { by: vec![signer(&key)], others: vec![] });
    assert!(matches!(state(from_ref(&signature), b"{} "), Trust::Invalid { .. }));
    let renamed = Signature { key_id: other.public().id().to_string(), ..signature.clone() };
    assert!(matches!(state(&[renamed], b"{}"), Trust::Invalid { .. }));
    let stranger = PrivateKey::generate(Algorithm::EcdsaP256).unwrap().sign(b"{}");
    assert_eq!(state(from_ref(&stranger), b"{}"), Trust::NotChecked { by: vec![stranger.key_id.clone()] });
    let both = Trust::Valid { by: vec![signer(&key)], others: vec![stranger.key_id.clone()] };
    assert_eq!(state(&[stranger.clone(), signature.clone()], b"{}"), both);
    // One that does not hold spoils the others, in any order.
    let broken = Signature { sig: stranger.sig.clone(), ..signature.clone() };
    assert!(matches!(state(&[other.sign(b"{}"), broken.clone()], b"{}"), Trust::Invalid { .. }));
    assert!(matches!(state(&[broken, other.sign(b"{}")], b"{}"), Trust::Invalid { .. }));
}

#[test]
fn a_key_or_a_demand_makes_a_valid_signature_mandatory() {
    let (key, other) = (private(ECDSA), private(ED25519));
    let signed = [key.sign(b"{}")];
    let policy = |keys: &[&PrivateKey], required| Policy { keys: keys.iter().map(|k| k.public()).collect(), required };
    let taken = |policy: &Policy, signatures: &[Signature]| policy.judge("x", signatures, &about(b"{}")).is_ok();
    assert!(taken(&policy(&[], false), &[]) && taken(&policy(&[], false), &signed));
    assert!(taken(&policy(&[&key], false), &signed) && taken(&policy(&[&other, &key], true), &signed));
    for (policy, signatures) in [
        (policy(&[], true), &[][..]),
        (policy(&[], true), &signed),
        (policy(&[&key], false), &[]),
        (policy(&[&other], false), &signed),
    ] {
        let refused = policy.judge("x.tar.zst", signatures, &about(b"{}")).unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::BundleUntrusted);
        assert!(refused.to_string().starts_with("x.tar.zst is not to be trusted: "), "{refused}");
    }
    assert!(policy(&[&key], false).judge("x", &signed, &about(b"{ }")).is_err());
}

#[test]
fn a_new_signature_takes_the_place_of_its_keys_old_one() {
    let (key, other) = (private(ECDSA), private(ED25519));
    let all = with_added(with_added(vec![], key.sign(b"old")), other.sign(b"old"));
    let all = with_added(all, key.sign(b"new"));
    assert_eq!(all, [key.sign(b"new"), other.sign(b"old")]);
}

#[test]
fn a_signer_may_give_der_the_two_numbers_or_base64_of_them() {
    let key = private(ECDSA);
    let signature = key.sign(b"sample");
    let hex = "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716\
               f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8";
    let numbers: Vec<u8> = (0..128).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    let wrapped = format!("{}\n{}\n", &signature.sig[..50], &signature.sig[50..]);
    for given in [&numbers[..], base64(hex).as_bytes(), signature.sig.as_bytes(), wrapped.as_bytes()] {
        assert_eq!(key.public().signature_from(b"sample", given).as_ref(), Some(&signature));
        assert_eq!(key.public().signature_from(b"Sample", given), None);
    }
    assert_eq!(key.public().signature_from(b"sample", b""), None);
}
