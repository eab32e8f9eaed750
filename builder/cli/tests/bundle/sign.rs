//! `keygen`, `sign`, and what `verify` says of signatures: three answers, never mixed up.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kubexm_archive::{Bundle, Signing};
use kubexm_signing::{Algorithm, PrivateKey};
use kubexm_spec::ExitCode;
use serde_json::Value;

use crate::site::{Ended, Site, assert_contains, end, noise};
use crate::verify::rewrite;

/// A site with a small bundle and two pairs of keys, `a` and `b`.
pub fn built() -> Site {
    let site = Site::new();
    site.write("a.txt", "text ".repeat(200));
    site.write("b.bin", noise(7, 20_000));
    site.extras("extraFiles: [{path: a.txt}, {path: b.bin}]");
    site.built(&[]);
    site.run(&["keygen", "-o", "a"]).must(ExitCode::Ok);
    site.run(&["keygen", "--algorithm", "ed25519", "-o", "b"]).must(ExitCode::Ok);
    site
}

/// `verify --json` with more arguments; its answer about signatures.
fn answer(site: &Site, code: ExitCode, more: &[&str]) -> Value {
    let args: Vec<&str> = ["verify", "--json", "out.tar.zst"].iter().chain(more).copied().collect();
    let document = site.run(&args).must(code).document();
    assert_eq!((&document["bytes"]["ok"], &document["complete"]["ok"]), (&true.into(), &true.into()));
    assert_eq!(document["exitCode"], code.code());
    document["signature"].clone()
}

fn key_id(site: &Site, name: &str) -> String {
    kubexm_signing::files::public_key(&site.path(name)).unwrap().id().to_string()
}

fn bundle(site: &Site) -> Vec<u8> {
    std::fs::read(site.path("out.tar.zst")).unwrap()
}

#[test]
fn an_unsigned_bundle_passes_unless_a_signature_is_required() {
    let site = built();
    let free = answer(&site, ExitCode::Ok, &[]);
    assert_eq!((&free["ok"], &free["state"]), (&Value::Null, &"unsigned".into()));
    for demand in [&["--require-signature"][..], &["--key", "a.pub"]] {
        let refused = answer(&site, ExitCode::BundleUntrusted, demand);
        assert_eq!((&refused["ok"], &refused["state"]), (&false.into(), &"unsigned".into()));
    }
    assert_contains(&site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok).out, &["unsigned"]);
    let text = site.run(&["verify", "--key", "a.pub", "out.tar.zst"]).must(ExitCode::BundleUntrusted).err;
    assert_contains(&text, &["checksums match", "not trusted", "unsigned", "kubexm-bundle sign"]);
}

#[test]
fn a_signed_bundle_is_verified_only_with_a_key_that_signed_it() {
    let site = built();
    let signed = site.run(&["sign", "--key", "a.key", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    let a = key_id(&site, "a.pub");
    assert_eq!((&signed["schema"], &signed["keyId"]), (&"kubexm.io/sign/v1".into(), &a.clone().into()));
    assert_eq!((&signed["signatures"], &signed["algorithm"]), (&1.into(), &"ecdsa-p256-sha256".into()));

    let free = answer(&site, ExitCode::Ok, &[]);
    assert_eq!((&free["ok"], &free["state"]), (&Value::Null, &"notChecked".into()));
    assert_eq!(free["signatures"][0]["keyId"], a.as_str());
    let text = site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok).out;
    assert_contains(&text, &[&a, "not checked"]);
    assert!(!text.contains("valid"), "{text}");

    let without_key = answer(&site, ExitCode::BundleUntrusted, &["--require-signature"]);
    assert_contains(without_key["problem"].as_str().unwrap(), &["there is no key to check with", "--key"]);
    let other = answer(&site, ExitCode::BundleUntrusted, &["--key", "b.pub"]);
    assert_eq!((&other["ok"], &other["state"]), (&false.into(), &"notChecked".into()));
    assert_contains(other["problem"].as_str().unwrap(), &[&a, &key_id(&site, "b.pub")]);

    for keys in [&["--key", "a.pub"][..], &["--key", "b.pub", "--key", "a.pub", "--require-signature"]] {
        let valid = answer(&site, ExitCode::Ok, keys);
        assert_eq!(
            (&valid["ok"], &valid["state"], &valid["validBy"][0]),
            (&true.into(), &"valid".into(), &a.clone().into())
        );
    }
    assert_contains(
        &site.run(&["verify", "--key", "a.pub", "out.tar.zst"]).must(ExitCode::Ok).out,
        &["signature valid, by", &a],
    );
}

#[test]
fn another_key_adds_its_signature_and_the_same_key_replaces_its_own() {
    let site = built();
    let unsigned = bundle(&site);
    site.run(&["sign", "--key", "a.key", "out.tar.zst"]).must(ExitCode::Ok);
    site.run(&["sign", "--key", "b.key", "out.tar.zst"]).must(ExitCode::Ok);
    let both = bundle(&site);
    assert_eq!(unsigned.len(), both.len());
    assert_contains(&site.run(&["sign", "--key", "a.key", "out.tar.zst"]).must(ExitCode::Ok).out, &["2 signatures"]);
    assert_eq!(bundle(&site), both, "signing again gives the same bytes");
    let (a, b) = (key_id(&site, "a.pub"), key_id(&site, "b.pub"));
    for (key, valid, also) in [("a.pub", &a, &b), ("b.pub", &b, &a)] {
        assert_eq!(answer(&site, ExitCode::Ok, &["--key", key])["validBy"], serde_json::json!([valid]));
        let text = site.run(&["verify", "--key", key, "out.tar.zst"]).must(ExitCode::Ok).out;
        assert_contains(&text, &[&format!("also signed by {also}, not checked")]);
    }
    let shown = site.run(&["inspect", "out.tar.zst"]).must(ExitCode::Ok).out;
    assert_contains(&shown, &[&format!("1: by key {a}"), &format!("2: by key {b}")]);
    let listed = site.run(&["inspect", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    assert_eq!(listed["signatures"][1], serde_json::json!({ "keyId": b, "alg": "ed25519", "date": 1_790_000_000 }));
    let by_number = site.run(&["inspect", "--signature", "1", "--form", "base64", "out.tar.zst"]).must(ExitCode::Ok);
    let by_id = site.run(&["inspect", "--signature", &a, "--form", "base64", "out.tar.zst"]).must(ExitCode::Ok);
    assert_eq!(by_number.out, by_id.out);
    let none = site.run(&["inspect", "--signature", "3", "out.tar.zst"]).must(ExitCode::BundleUntrusted).err;
    assert_contains(&none, &["has 2 signatures"]);
}

#[test]
fn damage_and_a_valid_signature_are_reported_separately() {
    let site = built();
    site.run(&["sign", "--key", "a.key", "out.tar.zst"]).must(ExitCode::Ok);
    let mut bytes = bundle(&site);
    let at = bytes.len() - 10_000;
    bytes[at] ^= 1;
    site.write("out.tar.zst", bytes);
    let args = ["verify", "--json", "--key", "a.pub", "out.tar.zst"];
    let document = site.run(&args).must(ExitCode::BundleDamaged).document();
    assert_eq!((&document["bytes"]["ok"], &document["signature"]["ok"]), (&false.into(), &true.into()));
    let args = ["verify", "--json", "--key", "b.pub", "out.tar.zst"];
    let document = site.run(&args).must(ExitCode::BundleUntrusted).document();
    assert_eq!((&document["bytes"]["ok"], &document["signature"]["ok"]), (&false.into(), &false.into()));
}

#[test]
fn a_signature_of_another_manifest_is_refused_even_beside_a_valid_one() {
    let site = built();
    site.run(&["sign", "--key", "a.key", "--detached", "-o", "first.sig", "out.tar.zst"]).must(ExitCode::Ok);
    rewrite(&site, &site.path("other.tar.zst"), None, |manifest| manifest.tool = "elsewhere".into());
    std::fs::rename(site.path("other.tar.zst"), site.path("out.tar.zst")).unwrap();
    let given = ["--signature", "first.sig", "--key", "a.pub"];
    let changed = answer(&site, ExitCode::BundleUntrusted, &given);
    assert_eq!((&changed["ok"], &changed["state"]), (&false.into(), &"invalid".into()));
    assert_contains(
        changed["problem"].as_str().unwrap(),
        &["is about another manifest.json", "changed after it was signed"],
    );
    site.run(&["sign", "--key", "b.key", "out.tar.zst"]).must(ExitCode::Ok);
    let both = answer(&site, ExitCode::BundleUntrusted, &[&given[..], &["--key", "b.pub"]].concat());
    assert_eq!(both["state"], "invalid");
}

#[test]
fn a_signature_under_another_keys_id_or_algorithm_is_refused() {
    let site = built();
    site.run(&["sign", "--key", "a.key", "--detached", "out.tar.zst"]).must(ExitCode::Ok);
    let text = std::fs::read_to_string(site.path("out.sig")).unwrap();
    let (a, b) = (key_id(&site, "a.pub"), key_id(&site, "b.pub"));
    let given = |name: &str, key: &str| answer(&site, ExitCode::BundleUntrusted, &["--signature", name, "--key", key]);
    site.write("swapped.sig", text.replace(&a, &b));
    assert_contains(given("swapped.sig", "b.pub")["problem"].as_str().unwrap(), &[&b, "another algorithm"]);
    assert_eq!(given("swapped.sig", "a.pub")["state"], "notChecked");
    site.write("forged.sig", text.replace(&a, &b).replace("ecdsa-p256-sha256", "ed25519"));
    assert_eq!(given("forged.sig", "b.pub")["state"], "invalid");
    site.write("claimed.sig", text.replace("ecdsa-p256-sha256", "ed25519"));
    assert_eq!(given("claimed.sig", "a.pub")["state"], "invalid");
    site.write("no-base64.sig", text.replace(r#""sig":""#, r#""sig":"="#));
    assert_eq!(given("no-base64.sig", "a.pub")["state"], "invalid");
    for bad in ["", "{}", "[{}]", r#"[{"keyId":"\u001b[31m","alg":"ed25519","sig":"AA=="}]"#] {
        site.write("bad.sig", bad);
        let ended = site.run(&["verify", "--signature", "bad.sig", "out.tar.zst"]).must(ExitCode::BundleUntrusted);
        assert_contains(&ended.err, &["bad.sig", "sign --detached"]);
        assert!(!ended.err.contains('\u{1b}'));
    }
}

#[test]
fn a_detached_signature_leaves_the_bundle_as_it_is() {
    let site = built();
    let before = bundle(&site);
    for key in ["a.key", "b.key", "a.key"] {
        site.run(&["sign", "--key", key, "--detached", "out.tar.zst"]).must(ExitCode::Ok);
    }
    assert_eq!(bundle(&site), before);
    assert_eq!(answer(&site, ExitCode::Ok, &[])["state"], "unsigned");
    for key in ["a.pub", "b.pub"] {
        let found = answer(&site, ExitCode::Ok, &["--signature", "out.sig", "--key", key]);
        assert_eq!((&found["state"], found["signatures"].as_array().unwrap().len()), (&"valid".into(), 2));
    }
}

#[test]
fn a_private_key_is_its_owners_alone_and_nothing_is_overwritten() {
    let site = Site::new();
    let made = site.run(&["keygen", "--json", "-o", "pair"]).must(ExitCode::Ok).document();
    assert_eq!(made["schema"], "kubexm.io/keygen/v1");
    assert_eq!(made["keyId"], key_id(&site, "pair.pub").as_str());
    let mode = |name: &str| site.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("pair.key"), 0o600);
    let private = std::fs::read(site.path("pair.key")).unwrap();
    assert_contains(&site.run(&["keygen", "-o", "pair"]).must(ExitCode::Usage).err, &["pair.key", "exists already"]);
    assert_eq!(std::fs::read(site.path("pair.key")).unwrap(), private);
    site.write("half.pub", "mine");
    assert_contains(&site.run(&["keygen", "-o", "half"]).must(ExitCode::Usage).err, &["half.pub", "exists already"]);
    assert!(!site.path("half.key").exists(), "half a pair was left");
    std::os::unix::fs::symlink("/nowhere/at/all", site.path("link.key")).unwrap();
    assert_contains(&site.run(&["keygen", "-o", "link"]).must(ExitCode::Usage).err, &["link.key"]);
    let absent = site.run(&["keygen", "-o", "absent/pair"]).must(ExitCode::Usage).err;
    assert_contains(&absent, &["absent/pair.key", "does not exist"]);
}

#[test]
fn an_encrypted_key_opens_with_its_password_and_never_shows_it() {
    let site = built();
    let with = |password: &str, args: &[&str]| end(site.program().env("KUBEXM_KEY_PASSWORD", password).args(args));
    with("correct horse", &["keygen", "-o", "locked"]).must(ExitCode::Ok);
    let text = std::fs::read_to_string(site.path("locked.key")).unwrap();
    assert_contains(&text, &["BEGIN ENCRYPTED PRIVATE KEY"]);
    let sign = ["sign", "--key", "locked.key", "out.tar.zst"];
    let before = bundle(&site);
    assert_contains(
        &site.run(&sign).must(ExitCode::Config).err,
        &["locked.key is encrypted", "KUBEXM_KEY_PASSWORD", "--password-file"],
    );
    let wrong = with("battery staple", &sign).must(ExitCode::Config).err;
    assert_contains(&wrong, &["locked.key does not open with this password"]);
    assert!(!wrong.contains("battery"), "{wrong}");
    assert_eq!(bundle(&site), before);
    with("correct horse", &sign).must(ExitCode::Ok);
    site.write("password", "correct horse\n");
    let from_file = [&sign[..], &["--password-file", "password"]].concat();
    with("battery staple", &from_file).must(ExitCode::Ok);
    assert_contains(
        &with("", &["keygen", "-o", "open"]).must(ExitCode::Config).err,
        &["password is empty", "KUBEXM_KEY_PASSWORD"],
    );
    assert!(!site.path("open.key").exists());
}

#[test]
fn a_key_may_come_from_the_environment() {
    let site = built();
    let text = std::fs::read_to_string(site.path("a.key")).unwrap();
    let sign = ["sign", "--key-env", "SIGNING_KEY", "out.tar.zst"];
    end(site.program().env("SIGNING_KEY", &text).args(sign)).must(ExitCode::Ok);
    assert_eq!(answer(&site, ExitCode::Ok, &["--key", "a.pub"])["state"], "valid");
    assert_contains(&site.run(&sign).must(ExitCode::Config).err, &["no variable SIGNING_KEY"]);
    let cut = end(site.program().env("SIGNING_KEY", &text[..100]).args(sign)).must(ExitCode::Config).err;
    assert_contains(&cut, &["$SIGNING_KEY holds no private key"]);
    assert!(!cut.contains(&text[40..80]), "{cut}");
}

#[test]
fn a_key_of_the_wrong_kind_is_reported_with_a_remedy() {
    let site = built();
    site.write("empty", "");
    site.write("notes", "just text\n");
    site.write("large", vec![b'x'; 100_000]);
    let verify = |key: &str| site.run(&["verify", "--key", key, "out.tar.zst"]);
    assert_contains(&verify("a.key").must(ExitCode::Config).err, &["a.key", "private key", "give the public one"]);
    assert_contains(&verify("absent").must(ExitCode::Config).err, &["cannot read absent", "No such file"]);
    for file in ["empty", "notes"] {
        assert_contains(&verify(file).must(ExitCode::Config).err, &[file, "no PEM block"]);
    }
    assert_contains(&verify("large").must(ExitCode::Config).err, &["large", "more than 65536 bytes"]);
    let swapped = site.run(&["sign", "--key", "a.pub", "out.tar.zst"]).must(ExitCode::Config).err;
    assert_contains(&swapped, &["a.pub", "public key", "give the private one"]);
}

#[test]
fn exactly_one_signer_must_be_given() {
    let site = built();
    for args in [
        &["sign", "out.tar.zst"][..],
        &["sign", "--key", "a.key", "--key-env", "X", "out.tar.zst"],
        &["sign", "--signer", "cat", "out.tar.zst"],
        &["sign", "--key", "a.key", "--public-key", "a.pub", "out.tar.zst"],
        &["sign", "--key", "a.key", "out.tar.zst", "--", "more"],
        &["sign", "--key", "a.key", "-o", "x.sig", "out.tar.zst"],
        &["inspect", "--form", "base64", "out.tar.zst"],
    ] {
        assert_eq!(site.run(args).code, i32::from(ExitCode::Usage.code()), "{args:?}");
    }
}

/// Puts so many signatures by fresh keys into the bundle.
fn fill(path: &Path, count: usize) {
    let open = Signing::open(path).unwrap();
    let key = |_| PrivateKey::generate(Algorithm::EcdsaP256).unwrap().sign(open.bundle().manifest_json());
    let all: Vec<_> = (0..count).map(key).collect();
    open.replace(&all, &|_, _| {}).unwrap();
}

#[test]
fn a_full_signature_slot_says_how_many_fit_and_keeps_them() {
    let site = built();
    let path = site.path("out.tar.zst");
    fill(&path, 85);
    let mut last = 85;
    let full = loop {
        site.run(&["keygen", "-o", &format!("k{last}")]).must(ExitCode::Ok);
        let before = bundle(&site);
        let ended = site.run(&["sign", "--key", &format!("k{last}.key"), "out.tar.zst"]);
        if ended.code != 0 {
            assert_eq!(bundle(&site), before);
            break ended.must(ExitCode::Usage);
        }
        last += 1;
        assert!(last < 120, "a room of 16 KiB never gets full");
    };
    assert_contains(&full.err, &["16384 bytes", &format!("{last} of these {} signatures fit", last + 1), "--detached"]);
    assert_eq!(Bundle::open(&path).unwrap().signatures().len(), last);
    site.run(&["verify", "--key", &format!("k{}.pub", last - 1), "out.tar.zst"]).must(ExitCode::Ok);
    site.run(&["sign", "--key", "a.key", "--detached", "out.tar.zst"]).must(ExitCode::Ok);
}

#[test]
fn a_signing_that_was_cut_off_is_reported_and_mended_by_signing() {
    let site = built();
    site.run(&["sign", "--key", "a.key", "out.tar.zst"]).must(ExitCode::Ok);
    let mut bytes = bundle(&site);
    let at = bytes.windows(9).position(|window| window == br#"[{"keyId""#).unwrap();
    bytes[at + 30..at + 60].fill(0);
    site.write("out.tar.zst", bytes);
    let torn = site.run(&["verify", "out.tar.zst"]).must(ExitCode::BundleDamaged).err;
    assert_contains(&torn, &["manifest.json.sig", "sign it again"]);
    let fixed = site.run(&["sign", "--key", "b.key", "out.tar.zst"]).must(ExitCode::Ok);
    assert_contains(&fixed.err, &["cannot be read", "only the new one is kept"]);
    assert_eq!(answer(&site, ExitCode::Ok, &["--key", "b.pub"])["signatures"].as_array().unwrap().len(), 1);
}

#[test]
fn sums_of_another_form_beside_it_are_reported_and_the_bundle_is_signed() {
    let site = built();
    site.write("out.sums", "my own notes\n");
    let signed = site.run(&["sign", "--key", "a.key", "out.tar.zst"]).must(ExitCode::Ok);
    assert_contains(&signed.err, &["out.sums", "stays as it is"]);
    assert_eq!(std::fs::read_to_string(site.path("out.sums")).unwrap(), "my own notes\n");
    assert_eq!(answer(&site, ExitCode::Ok, &["--key", "a.pub"])["state"], "valid");
}

#[test]
fn concurrent_signers_do_not_wait_and_lose_no_signature() {
    let site = built();
    let first = Signing::open(&site.path("out.tar.zst")).unwrap();
    let refused = site.run(&["sign", "--key", "a.key", "out.tar.zst"]).must(ExitCode::HostLocked).err;
    assert_contains(&refused, &["another program signs out.tar.zst now", "try again"]);
    drop(first);
    site.run(&["sign", "--key", "a.key", "out.tar.zst"]).must(ExitCode::Ok);
}

/// Runs the external signer `sh -c SCRIPT` for the key a.
fn by_program(site: &Site, script: &str, more: &[&str]) -> Ended {
    let mut args = vec!["sign", "--signer", "sh", "--public-key", "a.pub", "out.tar.zst"];
    args.extend(more);
    args.extend(["--", "-c", script]);
    site.run(&args)
}

#[test]
fn a_signature_of_an_external_program_is_checked_with_the_public_key() {
    let site = built();
    let before = bundle(&site);
    site.run(&["keygen", "-o", "c"]).must(ExitCode::Ok);
    let foreign = by_program(&site, "openssl dgst -sha256 -sign c.key", &[]).must(ExitCode::BundleUntrusted).err;
    assert_contains(
        &foreign,
        &["not an ecdsa-p256-sha256 signature of manifest.json", &key_id(&site, "a.pub"), "nothing was stored"],
    );
    let other_bytes = by_program(&site, "printf x | openssl dgst -sha256 -sign a.key", &[]);
    other_bytes.must(ExitCode::BundleUntrusted);
    let failed = by_program(&site, "echo 'no \x1b[31mtoken in the slot' >&2; exit 3", &[]).must(ExitCode::Config).err;
    assert_contains(&failed, &["the signer sh failed", "no [31mtoken in the slot"]);
    assert!(!failed.contains('\u{1b}'), "{failed:?}");
    let silent = by_program(&site, "cat > /dev/null; echo 'PIN?' >&2", &[]).must(ExitCode::Config).err;
    assert_contains(&silent, &["gave nothing", "PIN?"]);
    assert_contains(&by_program(&site, "yes", &[]).must(ExitCode::Config).err, &["gave more than"]);
    let late = by_program(&site, "exec sleep 600", &["--timeout", "1"]).must(ExitCode::Config).err;
    assert_contains(&late, &["did not end within 1 s"]);
    let none = site.run(&["sign", "--signer", "/no/such/program", "--public-key", "a.pub", "out.tar.zst"]);
    assert_contains(&none.must(ExitCode::Config).err, &["/no/such/program cannot be started", "no such file"]);
    assert_eq!(bundle(&site), before);
    by_program(&site, "openssl dgst -sha256 -sign a.key", &[]).must(ExitCode::Ok);
    assert_eq!(answer(&site, ExitCode::Ok, &["--key", "a.pub"])["state"], "valid");
    let base64 = "openssl dgst -sha256 -sign a.key | openssl base64";
    by_program(&site, base64, &["--detached"]).must(ExitCode::Ok);
    assert_eq!(answer(&site, ExitCode::Ok, &["--signature", "out.sig", "--key", "a.pub"])["state"], "valid");
}

#[test]
fn a_bundle_that_may_not_be_written_to_gets_its_signature_beside_it() {
    let site = built();
    let disk = crate::disk::Tmpfs::mount("8m");
    let on_disk = disk.path().join("out.tar.zst");
    std::fs::copy(site.path("out.tar.zst"), &on_disk).unwrap();
    disk.make_read_only();
    let name = on_disk.to_str().unwrap();
    let refused = site.run(&["sign", "--key", "a.key", name]).must(ExitCode::Disk).err;
    assert_contains(&refused, &["is not writable", "--detached", "Read-only"]);
    let beside = site.run(&["sign", "--key", "a.key", "--detached", name]).must(ExitCode::Disk).err;
    assert_contains(&beside, &["out.sig"]);
    site.run(&["sign", "--key", "a.key", "--detached", "-o", "mine.sig", name]).must(ExitCode::Ok);
    site.run(&["verify", "--signature", "mine.sig", "--key", "a.pub", name]).must(ExitCode::Ok);
}
