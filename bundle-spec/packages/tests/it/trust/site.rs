//! The site's own key: what it signs is trusted by others.

use std::path::Path;
use std::process::Command;

use kubexm_packages::trust::{Keyring, Policy, SiteKey, clearsigned, detached};
use tempfile::TempDir;

use crate::trust::gpg::{DAY, Gpg, THEN};
use crate::trust::{RELEASE, now};

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

pub fn succeeds(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {text}");
    text
}

#[test]
fn what_the_site_signs_is_trusted_by_gpgv_and_by_rpm() {
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

fn secret(gpg: &Gpg, key: &str) -> Vec<u8> {
    gpg.run(THEN, &["--armor", "--export-secret-keys", key], "")
}

/// Fingerprints of the subkeys, in the order in which they were made.
fn subkeys(gpg: &Gpg, key: &str) -> Vec<String> {
    let listed = String::from_utf8(gpg.run(THEN, &["--list-keys", "--with-colons", key], "")).unwrap();
    let prints = listed.lines().filter_map(|line| line.strip_prefix("fpr:")?.split(':').nth(8));
    prints.skip(1).map(str::to_owned).collect()
}

#[test]
fn the_newest_subkey_that_has_not_expired_signs() {
    let gpg = Gpg::new();
    let key = gpg.key("site", "rsa2048", "cert", "never");
    gpg.run(THEN, &["--quick-add-key", &key, "rsa2048", "sign", "2d"], "");
    gpg.run(THEN + DAY, &["--quick-add-key", &key, "rsa2048", "sign", "never"], "");
    let bytes = secret(&gpg, &key);
    let site = SiteKey::read(&bytes, None).unwrap();
    assert_eq!(site.created(), THEN + DAY);
    let document = site.clearsigned(RELEASE, THEN + 3 * DAY).unwrap();
    assert!(clearsigned(document.as_bytes(), &gpg.public(&key), &Policy::at(THEN + 4 * DAY)).is_ok());
    // By a clock of before the second one was made the first one signs.
    assert_eq!(SiteKey::read_at(&bytes, None, THEN + 60).unwrap().created(), THEN);
    // Given more time, the first one may sign again, and the newer one still does.
    let first = subkeys(&gpg, &key).remove(0);
    gpg.run(THEN + DAY, &["--quick-set-expire", &key, "30d", &first], "");
    assert_eq!(SiteKey::read_at(&secret(&gpg, &key), None, THEN + 4 * DAY).unwrap().created(), THEN + DAY);
}

#[test]
fn a_key_that_has_expired_signs_nothing_and_says_which_part_expired_when() {
    let gpg = Gpg::new();
    let key = gpg.key("site", "rsa2048", "cert", "never");
    gpg.run(THEN, &["--quick-add-key", &key, "rsa2048", "sign", "2d"], "");
    let bytes = secret(&gpg, &key);
    assert!(SiteKey::read_at(&bytes, None, THEN + DAY).is_ok());
    let refused = SiteKey::read(&bytes, None).err().unwrap().to_string();
    let subkey = subkeys(&gpg, &key).remove(0);
    for reported in [
        format!("{subkey} expired on Fri, 03 Jan 2025 00:00:00 UTC"),
        format!("gpg --quick-set-expire {key} 2y {subkey}"),
        "give another key".to_owned(),
    ] {
        assert!(refused.contains(&reported), "{refused}");
    }
    // The primary signs where it may.
    let both = gpg.key("both", "rsa2048", "cert,sign", "never");
    gpg.run(THEN + DAY, &["--quick-add-key", &both, "rsa2048", "sign", "2d"], "");
    assert_eq!(SiteKey::read(&secret(&gpg, &both), None).unwrap().created(), THEN);
    // And nothing does where it has expired, whatever its subkeys say.
    let whole = gpg.key("whole", "rsa2048", "cert,sign", "2d");
    gpg.run(THEN, &["--quick-add-key", &whole, "rsa2048", "sign", "never"], "");
    let refused = SiteKey::read(&secret(&gpg, &whole), None).err().unwrap().to_string();
    assert!(refused.contains(&format!("{whole} expired on")), "{refused}");
    assert!(refused.contains(&format!("gpg --quick-set-expire {whole} 2y;")), "{refused}");
}

#[test]
fn a_revoked_key_signs_nothing_and_says_so() {
    let gpg = Gpg::new();
    let key = gpg.key("site", "rsa2048", "cert,sign", "never");
    gpg.revoke(&key);
    let refused = SiteKey::read(&secret(&gpg, &key), None).err().unwrap().to_string();
    assert!(refused.contains(&format!("{key} was revoked by its owner on ")), "{refused}");
    assert!(refused.contains("give another key") && !refused.contains("--quick-set-expire"), "{refused}");
}

#[test]
fn a_stub_of_a_secret_that_is_elsewhere_is_passed_over() {
    let gpg = Gpg::new();
    let key = gpg.key("site", "rsa2048", "cert,sign", "never");
    gpg.run(THEN + DAY, &["--quick-add-key", &key, "rsa2048", "sign", "never"], "");
    // gpg leaves the primary's secret out, and says so in its place.
    let without = gpg.run(THEN, &["--export-secret-subkeys", &key], "");
    assert_eq!(SiteKey::read(&without, None).unwrap().created(), THEN + DAY);
    let other = gpg.key("other", "rsa2048", "cert,sign", "never");
    gpg.run(THEN, &["--quick-add-key", &other, "rsa2048", "encrypt", "never"], "");
    let without = gpg.run(THEN, &["--export-secret-subkeys", &other], "");
    let refused = SiteKey::read(&without, None).err().unwrap().to_string();
    assert!(refused.contains("only its public part is here"), "{refused}");
}

#[test]
fn a_locked_key_says_how_a_password_is_given_and_whether_it_was_the_wrong_one() {
    let gpg = Gpg::new();
    gpg.run(THEN, &["--passphrase", "right", "--quick-gen-key", "site", "rsa2048", "cert,sign", "never"], "");
    let bytes = gpg.run(THEN, &["--passphrase", "right", "--armor", "--export-secret-keys", "site"], "");
    assert!(SiteKey::read(&bytes, Some("right")).is_ok());
    let reported = SiteKey::read(&bytes, None).err().unwrap().to_string();
    assert!(reported.contains("is locked") && reported.contains("--password-file"), "{reported}");
    assert!(reported.contains("KUBEXM_KEY_PASSWORD"), "{reported}");
    let reported = SiteKey::read(&bytes, Some("wrong")).err().unwrap().to_string();
    assert!(reported.contains("cannot be unlocked with this password"), "{reported}");
}
