//! Signatures as GnuPG makes them are believed where they should be and nowhere else, and ours are believed by GnuPG, apt's gpgv and rpm.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail the test")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use kubexm_packages::trust::{Checker, Keyring, Policy, SiteKey, TrustError, clearsigned, detached};
use tempfile::TempDir;

/// 2025-01-01. Keys are made then.
const THEN: i64 = 1_735_689_600;
const DAY: i64 = 86_400;

const RELEASE: &str = "Origin: Test\nSuite: stable\n- dashed\nSHA256:\n 00 1 Packages\n";

/// A keyring of GnuPG in a folder of its own.
struct Gpg(TempDir);

impl Gpg {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        std::fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        Self(home)
    }

    fn run(&self, when: i64, args: &[&str], input: &str) -> Vec<u8> {
        let mut command = Command::new("gpg");
        command.arg("--homedir").arg(self.0.path()).args([
            "--batch",
            "--quiet",
            "--no-tty",
            "--pinentry-mode",
            "loopback",
        ]);
        command.args(["--passphrase", "", "--faked-system-time", &format!("{when}!"), "--allow-weak-digest-algos"]);
        command.args(["--allow-weak-key-signatures"]).args(args);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("gpg is installed");
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "gpg {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Makes a key; gives its fingerprint.
    fn key(&self, name: &str, algorithm: &str, usage: &str, expires: &str) -> String {
        self.run(THEN, &["--quick-gen-key", name, algorithm, usage, expires], "");
        let listed = String::from_utf8(self.run(THEN, &["--list-keys", "--with-colons", name], "")).unwrap();
        let line = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_owned()
    }

    /// A key that signs by a subkey, as Debian's do.
    fn with_subkey(&self) -> String {
        let key = self.key("archive", "ed25519", "cert", "never");
        self.run(THEN, &["--quick-add-key", &key, "ed25519", "sign", "never"], "");
        key
    }

    fn public(&self, key: &str) -> Keyring {
        Keyring::read(&self.run(THEN, &["--export", key], "")).unwrap()
    }

    fn clear(&self, key: &str, when: i64, more: &[&str]) -> Vec<u8> {
        let mut args = vec!["--local-user", key];
        args.extend(more);
        args.push("--clearsign");
        self.run(when, &args, RELEASE)
    }

    /// Revokes a key.
    fn revoke(&self, key: &str) {
        let file = self.0.path().join(format!("openpgp-revocs.d/{key}.rev"));
        let text = std::fs::read_to_string(file).unwrap().replace(":-----BEGIN", "-----BEGIN");
        self.run(THEN + DAY, &["--import"], &text);
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let _ = Command::new("gpgconf").arg("--homedir").arg(self.0.path()).args(["--kill", "all"]).output();
    }
}

fn now() -> Policy {
    Policy::at(THEN + 2 * DAY)
}

fn refused(document: &[u8], keys: &Keyring, policy: &Policy) -> TrustError {
    clearsigned(document, keys, policy).expect_err("it is believed")
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
fn a_key_that_is_not_pinned_is_nobody() {
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
fn one_good_signature_is_enough_and_one_that_does_not_fit_is_too_much() {
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

/// The site's key, made once: it takes a second or more.
fn site() -> SiteKey {
    SiteKey::generate("KubeXM site <kubexm@localhost>", 2048).unwrap()
}

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A policy for what the site's key, made just now, has signed.
fn soon(site: &SiteKey) -> Policy {
    Policy::at(site.created() + 60)
}

fn succeeds(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {text}");
    text
}

#[test]
fn what_the_site_signs_is_believed_by_gpgv_and_by_rpm() {
    let folder = TempDir::new().unwrap();
    let site = site();
    let keyring = write(folder.path(), "site.gpg", site.public_binary().unwrap());
    let content = write(folder.path(), "content", RELEASE);
    let clear = write(folder.path(), "InRelease", site.clearsigned(RELEASE, site.created()).unwrap());
    let apart = write(folder.path(), "Release.gpg", site.detached(RELEASE.as_bytes(), site.created()).unwrap());
    let text = folder.path().join("text");
    succeeds("gpgv", &["--keyring", &keyring, "--output", text.to_str().unwrap(), &clear]);
    assert_eq!(std::fs::read_to_string(text).unwrap(), RELEASE);
    succeeds("gpgv", &["--keyring", &keyring, &apart, &content]);

    let armored = write(folder.path(), "site.asc", site.public().unwrap());
    let database = folder.path().join("rpm");
    let database = database.to_str().unwrap();
    succeeds("rpmkeys", &["--dbpath", database, "--import", &armored]);
    let listed = succeeds("rpm", &["--dbpath", database, "-q", "gpg-pubkey", "--qf", "%{version}\n"]);
    assert_eq!(listed.trim(), site.fingerprint()[32..].to_lowercase());

    // And by us, from either form of the certificate.
    for certificate in [site.public().unwrap().into_bytes(), site.public_binary().unwrap()] {
        let keys = Keyring::read(&certificate).unwrap().pinned(&[site.fingerprint()]).unwrap();
        assert_eq!(clearsigned(&std::fs::read(&clear).unwrap(), &keys, &soon(&site)).unwrap().0, RELEASE);
        detached(RELEASE.as_bytes(), &std::fs::read(&apart).unwrap(), &keys, &soon(&site)).unwrap();
    }
}

#[test]
fn the_same_text_and_time_are_signed_in_the_same_bytes() {
    let site = site();
    assert_eq!(site.clearsigned(RELEASE, THEN).unwrap(), site.clearsigned(RELEASE, THEN).unwrap());
    assert_ne!(site.clearsigned(RELEASE, THEN).unwrap(), site.clearsigned(RELEASE, THEN + 1).unwrap());
    let again = SiteKey::read(site.secret().unwrap().as_bytes(), None).unwrap();
    assert_eq!(again.detached(b"x", THEN).unwrap(), site.detached(b"x", THEN).unwrap());
}

#[test]
fn keys_of_gpg_sign_with_the_part_that_is_for_it() {
    let gpg = Gpg::new();
    let key = gpg.key("site", "rsa2048", "cert", "never");
    let only = gpg.run(THEN, &["--armor", "--export-secret-keys", &key], "");
    let refused = SiteKey::read(&only, None).err().unwrap();
    assert!(refused.to_string().contains("not one that signs"), "{refused}");
    gpg.run(THEN, &["--quick-add-key", &key, "rsa2048", "sign", "never"], "");
    let site = SiteKey::read(&gpg.run(THEN, &["--armor", "--export-secret-keys", &key], ""), None).unwrap();
    let document = site.clearsigned(RELEASE, THEN + DAY).unwrap();
    assert_eq!(clearsigned(document.as_bytes(), &gpg.public(&key), &now()).unwrap().1.fingerprint, key);
    assert!(SiteKey::read(&gpg.run(THEN, &["--export", &key], ""), None).is_err(), "a public key signs nothing");
}
