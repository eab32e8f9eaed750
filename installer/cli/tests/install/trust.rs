//! Whom a bundle has to be from: asked before anything else in it is trusted, on every verb, every time.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use assert_cmd::Command;
use kubexm_archive::{ArchiveError, Bundle, Signing, write_detached};
use kubexm_signing::{Algorithm, PrivateKey, files, sign_bundle, with_added};
use kubexm_spec::SignedAt;
use predicates::prelude::*;
use predicates::str::contains;

use crate::site::{Site, closed_port, cluster_yaml};

/// A key of somebody, its public half in `NAME.pub`.
pub fn key(site: &Site, name: &str) -> PrivateKey {
    let key = PrivateKey::generate(Algorithm::EcdsaP256).unwrap();
    files::write_pair(&site.path(name), &key, None).unwrap();
    key
}

pub fn sign(bundle: &Path, key: &PrivateKey) {
    let open = Signing::open(bundle).unwrap();
    let signature = key.sign(open.bundle().manifest_json());
    open.replace(&[signature], &|_, _| {}).unwrap();
}

/// `create -y` with the key of this name.
fn with_key(site: &Site, bundle: &Path, name: &str) -> Command {
    let mut command = site.create(bundle);
    command.arg("--key").arg(site.path(&format!("{name}.pub")));
    command
}

#[test]
fn with_a_key_only_a_bundle_signed_by_it_is_taken_and_no_host_is_touched_before() {
    let site = Site::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bundle = site.bundle(listener.local_addr().unwrap().port());
    let (ours, theirs) = (key(&site, "ours"), key(&site, "theirs"));
    let untrusted = contains("is not to be trusted");
    with_key(&site, &bundle, "ours").assert().code(34).stderr(untrusted.clone().and(contains("unsigned")));
    sign(&bundle, &theirs);
    let foreign = with_key(&site, &bundle, "ours").assert().code(34);
    foreign.stderr(untrusted.and(contains(theirs.public().id().as_str())).and(contains(ours.public().id().as_str())));
    let required =
        site.install(&["create", "-y", "--require-signature", "--bundle", bundle.to_str().unwrap()]).assert();
    required.code(34).stderr(contains("there is no key to check with"));
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "somebody connected to the host");

    // What is taken continues to the host, whose key cannot be read here.
    drop(listener);
    let bundle = site.bundle(closed_port());
    sign(&bundle, &ours);
    with_key(&site, &bundle, "ours")
        .assert()
        .code(51)
        .stderr(contains("signature valid, by").and(contains(ours.public().id().as_str())));
    site.create(&bundle).assert().code(51).stderr(contains("not checked").and(contains("valid, by").not()));
}

#[test]
fn a_bundle_that_was_verified_before_is_still_asked_for_its_signature() {
    let site = Site::new();
    let bundle = site.bundle(closed_port());
    let ours = key(&site, "ours");
    key(&site, "theirs");
    sign(&bundle, &ours);
    with_key(&site, &bundle, "ours").assert().code(51);
    with_key(&site, &bundle, "ours").assert().code(51).stderr(contains("was verified before"));
    with_key(&site, &bundle, "theirs").assert().code(34);
}

#[test]
fn keys_kept_in_the_home_count_as_given() {
    let site = Site::new();
    let bundle = site.bundle(closed_port());
    let (ours, theirs) = (key(&site, "ours"), key(&site, "theirs"));
    let kept = site.path("home/trusted-keys");
    fs::create_dir_all(&kept).unwrap();
    fs::write(kept.join("notes.txt"), "no key").unwrap();
    site.create(&bundle).assert().code(51);
    fs::copy(site.path("ours.pub"), kept.join("ours.pub")).unwrap();
    site.create(&bundle).assert().code(34).stderr(contains("unsigned"));
    sign(&bundle, &theirs);
    site.create(&bundle).assert().code(34);
    with_key(&site, &bundle, "theirs").assert().code(51);
    sign(&bundle, &ours);
    site.create(&bundle).assert().code(51).stderr(contains("signature valid, by"));
    fs::write(kept.join("broken.pub"), "no key").unwrap();
    site.create(&bundle).assert().code(20).stderr(contains("broken.pub").and(contains("no public key")));
}

#[test]
fn a_valid_detached_signature_is_accepted_and_an_invalid_one_refused() {
    let site = Site::new();
    let bundle = site.bundle(closed_port());
    let ours = key(&site, "ours");
    let good = site.path("site.sig");
    let manifest = Signing::open(&bundle).unwrap().bundle().manifest_json().to_vec();
    write_detached(&good, &[ours.sign(&manifest)]).unwrap();
    with_key(&site, &bundle, "ours").arg("--signature").arg(&good).assert().code(51);
    let bad = site.path("bad.sig");
    write_detached(&bad, &[ours.sign(b"{}")]).unwrap();
    let refused = with_key(&site, &bundle, "ours").arg("--signature").arg(&bad).assert().code(34);
    refused.stderr(contains("does not hold for this manifest.json"));
    sign(&bundle, &ours);
    with_key(&site, &bundle, "ours").arg("--signature").arg(&bad).assert().code(34);
}

#[test]
fn every_verb_that_takes_a_bundle_demands_the_signature() {
    let site = Site::new();
    let bundle = site.bundle(closed_port());
    key(&site, "ours");
    let (bundle, key) = (bundle.to_str().unwrap().to_owned(), site.path("ours.pub").to_str().unwrap().to_owned());
    fs::write(site.path("plan.json"), "{}").unwrap();
    let plan = site.path("plan.json").to_str().unwrap().to_owned();
    let backup = site.backup().to_str().unwrap().to_owned();
    let folder = site.folder.path().to_str().unwrap().to_owned();
    for verb in [
        &["create", "-y"][..],
        &["create", "-y", "--from-backup", &backup],
        &["-y"],
        &["preflight"],
        &["plan", "create"],
        &["plan", "upgrade"],
        &["plan", "add-node"],
        &["add-node", "-y"],
        &["delete-node", "node1", "-y"],
        &["upgrade", "-y"],
        &["adopt", "--dry-run"],
        &["adopt", "-y"],
        &["run", &plan, "-y"],
        &["drift"],
        &["status"],
        &["certs", "check"],
        &["certs", "renew", "-y"],
        &["backup", "--to", &folder],
        &["restore", &backup, "-y"],
        &["addons", "list"],
        &["addons", "diff"],
        &["addons", "apply", "-y"],
        &["registry", "list"],
        &["registry", "prune", "-y"],
        &["resume"],
        &["rollback", "-y"],
        &["reset", "-y"],
    ] {
        let args = [verb, &["--bundle", &bundle, "--key", &key]].concat();
        site.install(&args).assert().code(34).stdout("").stderr(contains("is not to be trusted"));
    }
    let file = site.path("cluster.yaml");
    fs::write(&file, cluster_yaml(&[("node1", closed_port())])).unwrap();
    let alone = ["reset", "-y", "-f", file.to_str().unwrap(), "--key", &key];
    site.install(&alone).assert().code(2).stderr(contains("--bundle"));
}

/// Signs at a date, beside the signatures that are there.
pub fn sign_at(bundle: &Path, key: &PrivateKey, date: i64) {
    sign_as(bundle, key, SignedAt { date, sequence: None });
}

fn sign_as(bundle: &Path, key: &PrivateKey, signed: SignedAt) {
    let open = Signing::open(bundle).unwrap();
    let signature = sign_bundle(open.bundle(), signed, |bytes| Ok::<_, ArchiveError>(key.sign(bytes))).unwrap();
    let all = with_added(open.bundle().signatures().to_vec(), signature);
    open.replace(&all, &|_, _| {}).unwrap();
}

/// What a run leaves that ended well.
pub fn installed(site: &Site, signer: &PrivateKey, date: i64) {
    remembered(site, signer, SignedAt { date, sequence: None });
}

fn remembered(site: &Site, signer: &PrivateKey, signed: SignedAt) {
    let SignedAt { date, sequence } = signed;
    let mut bundle = serde_json::json!({
        "manifest": kubexm_spec::Digest::of("another bundle"), "signers": [signer.public().id().to_string()], "date": date,
    });
    if let Some(sequence) = sequence {
        bundle["sequence"] = sequence.into();
    }
    let record =
        serde_json::json!({ "schema": "kubexm.io/installed/v1", "run": "20261120T081502Z-4f1c", "bundle": bundle });
    let name = Bundle::open(&site.path("site.tar.zst")).unwrap().manifest().name.clone();
    let folder = site.path("home/clusters").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("installed.json"), record.to_string()).unwrap();
}

#[test]
fn an_older_bundle_and_one_of_another_signer_are_refused_before_a_host_is_touched_until_they_are_allowed() {
    let site = Site::new();
    let bundle = site.bundle(closed_port());
    let (ours, theirs) = (key(&site, "ours"), key(&site, "theirs"));
    sign_at(&bundle, &ours, 1_790_000_000);
    with_key(&site, &bundle, "ours").assert().code(51);
    installed(&site, &ours, 1_790_000_001);
    let older = with_key(&site, &bundle, "ours").assert().code(34);
    older
        .stderr(contains("is older than what is installed").and(contains("--allow-older")).and(contains("2026-09-21")));
    with_key(&site, &bundle, "ours").arg("--allow-other-signer").assert().code(34);
    with_key(&site, &bundle, "ours").arg("--allow-older").assert().code(51);
    sign_at(&bundle, &ours, 1_790_000_001);
    with_key(&site, &bundle, "ours").assert().code(51);

    installed(&site, &theirs, 1_790_000_000);
    let other = with_key(&site, &bundle, "ours").assert().code(34);
    other.stderr(contains(theirs.public().id().as_str()).and(contains("--allow-other-signer")));
    with_key(&site, &bundle, "ours").arg("--allow-other-signer").assert().code(51);
    // The old key vouches for the new one by signing the same bundle.
    sign_at(&bundle, &theirs, 1_790_000_001);
    with_key(&site, &bundle, "ours").arg("--key").arg(site.path("theirs.pub")).assert().code(51);
}

#[test]
fn an_unsigned_bundle_is_refused_for_a_cluster_made_from_a_signed_one() {
    let site = Site::new();
    let bundle = site.bundle(closed_port());
    let ours = key(&site, "ours");
    site.create(&bundle).assert().code(51);
    installed(&site, &ours, 1_790_000_000);
    let refused = site.create(&bundle).assert().code(34);
    refused.stderr(contains("no key that you trust has signed this one").and(contains("this controller remembers")));
    for verb in [&["preflight"][..], &["plan", "create"], &["add-node", "-y"]] {
        site.install(&[verb, &["--bundle", bundle.to_str().unwrap()]].concat()).assert().code(34);
    }
    site.create(&bundle).args(["--allow-other-signer", "--allow-older"]).assert().code(51);
    fs::write(
        site.path("home/clusters").join(Bundle::open(&bundle).unwrap().manifest().name.as_str()).join("installed.json"),
        "{",
    )
    .unwrap();
    site.create(&bundle).assert().code(20).stderr(contains("installed.json"));
}

#[test]
fn a_newer_statement_of_another_bundle_makes_no_bundle_newer() {
    let (site, other) = (Site::new(), Site::new());
    let (bundle, newer) = (site.bundle(closed_port()), other.bundle(closed_port()));
    let ours = key(&site, "ours");
    sign_at(&bundle, &ours, 1_790_000_000);
    sign_at(&newer, &ours, 1_790_000_009);
    assert_ne!(Bundle::open(&bundle).unwrap().manifest_digest(), Bundle::open(&newer).unwrap().manifest_digest());
    write_detached(&site.path("newer.sig"), Bundle::open(&newer).unwrap().signatures()).unwrap();
    installed(&site, &ours, 1_790_000_001);
    let beside = with_key(&site, &bundle, "ours").arg("--signature").arg(site.path("newer.sig")).assert().code(34);
    beside.stderr(contains("about another manifest.json"));
    let open = Signing::open(&bundle).unwrap();
    open.replace(Bundle::open(&newer).unwrap().signatures(), &|_, _| {}).unwrap();
    with_key(&site, &bundle, "ours").assert().code(34).stderr(contains("about another manifest.json"));
}

#[test]
fn an_older_sequence_is_refused_despite_a_newer_date_and_json_has_the_reason() {
    let site = Site::new();
    let bundle = site.bundle(closed_port());
    let ours = key(&site, "ours");
    sign_as(&bundle, &ours, SignedAt { date: 1_790_000_002, sequence: Some(6) });
    remembered(&site, &ours, SignedAt { date: 1_790_000_001, sequence: Some(7) });
    let refused = with_key(&site, &bundle, "ours").assert().code(34);
    refused.stderr(contains("has sequence 7").and(contains("has sequence 6")).and(contains("--allow-older")));
    let reported = with_key(&site, &bundle, "ours").arg("--json").assert().code(34).get_output().stdout.clone();
    let last: serde_json::Value =
        serde_json::from_slice(reported.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap()).unwrap();
    let data = &last["data"];
    assert_eq!((&data["reason"], &data["installed"]["sequence"]), (&"older".into(), &7.into()), "{last}");
    // The signer's clock ran ahead once; the number says which is the newer one.
    remembered(&site, &ours, SignedAt { date: 1_890_000_000, sequence: Some(5) });
    with_key(&site, &bundle, "ours").assert().code(51);
    // Who signs without a number again has to be allowed once.
    remembered(&site, &ours, SignedAt { date: 1, sequence: Some(1) });
    sign_at(&bundle, &ours, 1_790_000_009);
    with_key(&site, &bundle, "ours").assert().code(34);
    with_key(&site, &bundle, "ours").arg("--allow-older").assert().code(51);
}
