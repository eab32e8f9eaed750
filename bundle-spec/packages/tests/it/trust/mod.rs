//! Signatures as GnuPG makes them are trusted where they should be and nowhere else, and ours are trusted by GnuPG, apt's gpgv and rpm.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests may fail the test")]

mod gpg;
mod rpm;
mod site;

use gpg::{DAY, Gpg, THEN};
use kubexm_packages::trust::{Checker, Keyring, Policy, TrustError, clearsigned, detached};

const RELEASE: &str = "Origin: Test\nSuite: stable\n- dashed\nSHA256:\n 00 1 Packages\n";

fn now() -> Policy {
    Policy::at(THEN + 2 * DAY)
}

fn refused(document: &[u8], keys: &Keyring, policy: &Policy) -> TrustError {
    clearsigned(document, keys, policy).expect_err("it is trusted")
}

#[test]
fn a_document_signed_by_a_subkey_gives_its_text_and_nothing_else() {
    let gpg = Gpg::new();
    let key = gpg.with_subkey();
    let document = gpg.clear(&key, THEN + DAY, &[]);
    let keys = gpg.public(&key);
    let (text, signer) = clearsigned(&document, &keys, &now()).unwrap();
    assert_eq!(text, RELEASE);
    assert_eq!(
        (signer.fingerprint.as_str(), signer.owner.as_str(), signer.made),
        (key.as_str(), "archive", THEN + DAY)
    );

    let document = String::from_utf8(document).unwrap();
    for (from, to) in [("stable", "other"), ("Suite:", "Suite: x\nCodename:"), (" 00 1 Packages\n", "")] {
        let changed = document.replacen(from, to, 1);
        assert_ne!(changed, document);
        let error = refused(changed.as_bytes(), &keys, &now());
        assert!(matches!(error, TrustError::BadSignature { .. }), "{error}");
    }
    for unsigned in [format!("{document}Suite: other\n"), format!("Suite: other\n{document}")] {
        assert!(matches!(refused(unsigned.as_bytes(), &keys, &now()), TrustError::NotClearsigned { .. }));
    }
}

#[test]
fn a_signature_by_a_key_that_is_not_pinned_is_not_trusted() {
    let gpg = Gpg::new();
    let (mine, other) =
        (gpg.key("mine", "ed25519", "default", "never"), gpg.key("other", "ed25519", "default", "never"));
    let document = gpg.clear(&other, THEN, &[]);
    let both = Keyring::read(&gpg.run(THEN, &["--export", "--armor"], "")).unwrap();
    assert!(clearsigned(&document, &both, &now()).is_ok());
    let pinned = both.clone().pinned(&[mine.to_lowercase()]).unwrap();
    let TrustError::NoSignatureOfAKnownKey { found, known } = refused(&document, &pinned, &now()) else {
        panic!("another error")
    };
    assert_eq!((found, known), (vec![other.clone()], vec![mine.clone()]));
    assert!(matches!(both.clone().pinned(&["0".repeat(40)]), Err(TrustError::MissingKeys { .. })));
    assert!(matches!(both.pinned(&[]), Err(TrustError::MissingKeys { .. })), "no pin is no trust");
}

#[test]
fn one_valid_signature_is_enough_and_an_invalid_one_of_a_trusted_key_is_refused() {
    let gpg = Gpg::new();
    let (one, two) = (gpg.key("one", "ed25519", "default", "never"), gpg.key("two", "ed25519", "default", "never"));
    let sign = |key: &str, text: &str| gpg.run(THEN, &["--local-user", key, "--detach-sign"], text);
    let keys = |key: &str| gpg.public(key);
    let both = [sign(&one, RELEASE), sign(&two, RELEASE)].concat();
    for key in [&one, &two] {
        assert_eq!(detached(RELEASE.as_bytes(), &both, &keys(key), &now()).unwrap().fingerprint, *key);
    }
    let half = [sign(&one, RELEASE), sign(&two, "another")].concat();
    assert!(detached(RELEASE.as_bytes(), &half, &keys(&one), &now()).is_ok(), "the second is nobody's here");
    let error = detached(RELEASE.as_bytes(), &half, &keys(&one).and(keys(&two)), &now()).unwrap_err();
    assert_eq!(error, TrustError::BadSignature { key: two });
}

#[test]
fn signatures_by_the_thousand_are_refused_before_each_of_them_hashes_the_content() {
    let gpg = Gpg::new();
    let key = gpg.key("one", "ed25519", "default", "never");
    let keys = gpg.public(&key);
    let signature = gpg.run(THEN, &["--local-user", &key, "--detach-sign"], RELEASE);
    let signed = |count: usize| detached(RELEASE.as_bytes(), &signature.repeat(count), &keys, &now());
    assert!(signed(32).is_ok());
    assert_eq!(signed(33), Err(TrustError::TooManySignatures { limit: 32 }));
}

#[test]
fn keys_and_signatures_end_when_they_say() {
    let gpg = Gpg::new();
    let key = gpg.key("short", "ed25519", "default", "2d");
    let keys = gpg.public(&key);
    let document = gpg.clear(&key, THEN + DAY, &[]);
    assert!(clearsigned(&document, &keys, &Policy::at(THEN + DAY)).is_ok());
    let late = Policy::at(THEN + 10 * DAY);
    let TrustError::Expired { key: named, at } = refused(&document, &keys, &late) else { panic!("another error") };
    assert_eq!(named, key);
    assert!((THEN + DAY..THEN + 3 * DAY).contains(&at), "{at}");
    assert!(clearsigned(&document, &keys, &late.of_packages()).is_ok(), "packages outlive keys");

    let key = gpg.key("brief", "ed25519", "default", "never");
    let document = gpg.clear(&key, THEN, &["--default-sig-expire", "1d"]);
    let keys = gpg.public(&key);
    assert!(clearsigned(&document, &keys, &Policy::at(THEN + 60)).is_ok());
    assert!(matches!(refused(&document, &keys, &late), TrustError::SignatureExpired { .. }));
}

#[test]
fn a_signature_of_the_future_or_from_before_its_key_is_refused() {
    let gpg = Gpg::new();
    let key = gpg.key("clock", "ed25519", "default", "never");
    let keys = gpg.public(&key);
    let document = gpg.clear(&key, THEN + 5 * DAY, &[]);
    assert!(matches!(refused(&document, &keys, &now()), TrustError::ImpossibleTime { .. }));
    assert!(clearsigned(&document, &keys, &Policy::at(THEN + 5 * DAY - 60)).is_ok(), "clocks differ by a minute");
    let early = gpg.clear(&key, THEN - DAY, &["--ignore-time-conflict"]);
    assert!(matches!(refused(&early, &keys, &now()), TrustError::ImpossibleTime { .. }));
}

#[test]
fn what_a_revoked_key_signed_is_refused() {
    let gpg = Gpg::new();
    let key = gpg.key("gone", "ed25519", "default", "never");
    let document = gpg.clear(&key, THEN, &[]);
    assert!(clearsigned(&document, &gpg.public(&key), &now()).is_ok());
    gpg.revoke(&key);
    assert_eq!(refused(&document, &gpg.public(&key), &now()), TrustError::Revoked { key: key.clone() });
    assert_eq!(refused(&document, &gpg.public(&key), &now().of_packages()), TrustError::Revoked { key });

    let key = gpg.with_subkey();
    let document = gpg.clear(&key, THEN, &[]);
    gpg.run(
        THEN + DAY,
        &["--command-fd", "0", "--no-batch", "--edit-key", &key, "key 1", "revkey", "save"],
        "y\n0\n\ny\n",
    );
    assert!(matches!(refused(&document, &gpg.public(&key), &now()), TrustError::Revoked { .. }));
}

#[test]
fn digests_and_keys_that_can_be_forged_are_refused() {
    let gpg = Gpg::new();
    let key = gpg.key("old", "rsa2048", "default", "never");
    let keys = gpg.public(&key);
    let sha1 = gpg.clear(&key, THEN, &["--digest-algo", "SHA1"]);
    assert_eq!(refused(&sha1, &keys, &now()), TrustError::WeakDigest { key: key.clone(), digest: "SHA1".to_owned() });
    assert!(clearsigned(&sha1, &keys, &Policy { sha1: true, ..now() }).is_ok(), "the profile knows no other");
    let ripemd = gpg.clear(&key, THEN, &["--digest-algo", "RIPEMD160"]);
    assert!(matches!(refused(&ripemd, &keys, &Policy { sha1: true, ..now() }), TrustError::WeakDigest { .. }));
    for algorithm in ["rsa1024", "dsa2048"] {
        let key = gpg.key(algorithm, algorithm, "default", "never");
        let document = gpg.clear(&key, THEN, &["--digest-algo", "SHA256"]);
        assert!(matches!(refused(&document, &gpg.public(&key), &now()), TrustError::WeakKey { .. }), "{algorithm}");
    }
}

#[test]
fn a_flipped_byte_is_refused_or_changes_nothing_that_is_read() {
    let gpg = Gpg::new();
    let key = gpg.key("flip", "ed25519", "default", "never");
    let (document, keys) = (gpg.clear(&key, THEN, &[]), gpg.public(&key));
    let mut refused = 0;
    for place in 0..document.len() {
        let mut changed = document.clone();
        changed[place] ^= if place % 2 == 0 { 0x01 } else { 0x20 };
        match clearsigned(&changed, &keys, &now()) {
            Ok((text, _)) => assert_eq!(text, RELEASE, "byte {place}"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > document.len() / 2, "{refused} of {}", document.len());
}

#[test]
fn content_may_come_in_pieces() {
    let gpg = Gpg::new();
    let key = gpg.key("pieces", "ed25519", "default", "never");
    let keys = gpg.public(&key);
    let content = "a\r\nb\nc\r\n\nd";
    for mode in ["--no-textmode", "--textmode"] {
        let signature = gpg.run(THEN, &["--local-user", &key, mode, "--armor", "--detach-sign"], content);
        for size in 1..content.len() {
            let mut checker = Checker::new(&signature).unwrap();
            content.as_bytes().chunks(size).for_each(|piece| checker.update(piece));
            checker.finish(&keys, &now()).unwrap_or_else(|error| panic!("{mode}, pieces of {size}: {error}"));
        }
    }
}

#[test]
fn other_files_are_no_keys_and_no_signatures() {
    for bytes in [&b""[..], b"hello", b"<html>", &[0x99], &[0xff; 100], b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n"] {
        assert!(matches!(Keyring::read(bytes), Err(TrustError::NotKeys { .. })), "{bytes:?}");
        assert!(Checker::new(bytes).is_err(), "{bytes:?}");
    }
}
