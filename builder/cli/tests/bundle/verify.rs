//! `verify`: each kind of fault has its exit code, a text that names it, and a document of one form.

use std::path::Path;

use kubexm_archive::{Input, Options};
use kubexm_spec::manifest::{Manifest, Member};
use kubexm_spec::{Digest, ExitCode};
use serde_json::Value;

use crate::site::{Site, assert_contains, extras, noise};

fn built() -> Site {
    let site = Site::new();
    site.write("a.txt", "text ".repeat(2000));
    site.write("b.bin", noise(7, 200_000));
    site.extras("extraFiles: [{path: a.txt}, {path: b.bin}]");
    site.built(&[]);
    site
}

/// Verifies as a person and as a machine: the same code, and the machine's document.
fn verify(site: &Site, name: &str, code: ExitCode) -> (String, Value) {
    let text = site.run(&["verify", name]).must(code);
    let document = site.run(&["verify", "--json", name]).must(code).document();
    assert_eq!(document["schema"], "kubexm.io/verify/v1");
    assert_eq!(document["exitCode"], code.code());
    let mut keys: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let (bundle, answers) =
        (["bundleId", "bytes", "complete", "delta", "exitCode", "file", "files"], ["imageSignatures", "manifest"]);
    let rest = ["problem", "quick", "schema", "signature"];
    assert_eq!(keys, [&bundle[..], &answers, &rest].concat());
    (text.err, document)
}

#[test]
fn every_flipped_byte_is_found_and_its_place_named() {
    let site = built();
    let good = std::fs::read(site.path("out.tar.zst")).unwrap();
    let mut seen_member = false;
    for place in [60, good.len() / 2, good.len() - 40_000, good.len() - 100, good.len() - 3] {
        let mut bad = good.clone();
        bad[place] ^= 0x20;
        site.write("bad.tar.zst", bad);
        let ended = site.run(&["verify", "--json", "bad.tar.zst"]);
        let document = ended.document();
        // The very end tells a bundle from other files, so a flip there may look like another kind of fault.
        assert!((30..=35).contains(&ended.code) && ended.code != 33, "byte {place}: {}", ended.code);
        assert_eq!((&document["bytes"]["ok"], &document["complete"]["checked"]), (&false.into(), &false.into()));
        seen_member |= document["bytes"]["damage"][0].as_str().unwrap().contains("blobs/sha256/");
    }
    assert!(seen_member, "no damage named its member");
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 0x20;
    site.write("bad.tar.zst", bad);
    let (text, _) = verify(&site, "bad.tar.zst", ExitCode::BundleDamaged);
    assert_contains(&text, &["bad.tar.zst", "blobs/sha256/", "copy"]);
}

#[test]
fn a_truncated_bundle_says_where_it_ends() {
    let site = built();
    let good = std::fs::read(site.path("out.tar.zst")).unwrap();
    for length in [good.len() - 1, good.len() / 2, 1000] {
        site.write("short.tar.zst", &good[..length]);
        let (text, document) = verify(&site, "short.tar.zst", ExitCode::BundleTruncated);
        assert_contains(&text, &["short.tar.zst", &length.to_string(), "copy it again"]);
        assert_eq!(document["bundleId"], Value::Null);
    }
}

#[test]
fn a_file_that_is_no_bundle_is_reported_as_such() {
    let site = Site::new();
    site.write("notes.tar.zst", "just text\n".repeat(100));
    assert_contains(&verify(&site, "notes.tar.zst", ExitCode::NotABundle).0, &["notes.tar.zst", "is not a bundle"]);
    site.write("empty.tar.zst", "");
    let ended = site.run(&["verify", "empty.tar.zst"]);
    assert!([31, 35].contains(&ended.code), "{}", ended.code);
    let (text, document) = verify(&site, "none.tar.zst", ExitCode::NoSuchBundle);
    assert_contains(&text, &["none.tar.zst does not exist"]);
    assert_eq!(document["bytes"]["ok"], Value::Null, "bytes that nobody saw are not damaged");
    assert_contains(document["problem"].as_str().unwrap(), &["none.tar.zst does not exist"]);
    let made = std::process::Command::new("mkfifo").arg(site.path("pipe")).status().unwrap();
    assert!(made.success());
    for args in [&["verify", "pipe"][..], &["verify", "--base", "pipe", "pipe"], &["diff", "pipe", "pipe"]] {
        let output = site.program().args(args).timeout(std::time::Duration::from_secs(60)).output().unwrap();
        assert_eq!(output.status.code(), Some(35), "{args:?}: {output:?}");
        assert_contains(&String::from_utf8(output.stderr).unwrap(), &["not a regular file"]);
    }
}

#[test]
fn missing_keys_and_signatures_are_reported_before_the_bundle_is_read() {
    let site = built();
    // Nobody writes to this pipe, and nobody closes it: reading the bundle first would wait for ever.
    let (reader, writer) = std::io::pipe().unwrap();
    for more in [["--key", "none.pub"], ["--signature", "none.sig"]] {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("kubexm-bundle"));
        command.args(["verify", "-"]).args(more).current_dir(site.path("")).stdin(reader.try_clone().unwrap());
        let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while child.try_wait().unwrap().is_none() && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(i32::from(ExitCode::Config.code())), "{more:?}: {output:?}");
        assert_contains(&String::from_utf8(output.stderr).unwrap(), &[more[1]]);
    }
    drop(writer);
    let document =
        site.run(&["verify", "--json", "--key", "none.pub", "out.tar.zst"]).must(ExitCode::Config).document();
    assert_eq!((&document["exitCode"], &document["bytes"]["ok"]), (&ExitCode::Config.code().into(), &Value::Null));
    assert_contains(document["problem"].as_str().unwrap(), &["none.pub"]);
}

#[test]
fn a_bundle_of_a_newer_format_says_which_program_to_use() {
    let site = built();
    let mut bytes = std::fs::read(site.path("out.tar.zst")).unwrap();
    // The trailer's payload: its magic, the format's number, …, and the digest of all before it.
    let at = bytes.windows(8).rposition(|window| window == b"KUBEXM\r\n").unwrap();
    let length = u32::from_le_bytes(bytes[at - 4..at].try_into().unwrap()) as usize;
    bytes[at + 8..at + 12].copy_from_slice(&3_u32.to_le_bytes());
    let own = Digest::of(&bytes[at..at + length - 32]);
    bytes[at + length - 32..at + length].copy_from_slice(own.as_bytes());
    site.write("newer.tar.zst", bytes);
    assert_contains(
        &verify(&site, "newer.tar.zst", ExitCode::BundleNewer).0,
        &["newer.tar.zst", "newer format", "format 3"],
    );
}

/// Writes a bundle anew after its texts or its manifest were changed.
pub fn rewrite(site: &Site, target: &Path, cluster_yaml: Option<&str>, change: impl FnOnce(&mut Manifest)) {
    let bundle = kubexm_archive::Bundle::open(&site.path("out.tar.zst")).unwrap();
    let mut manifest = bundle.manifest().clone();
    let contents: Vec<(String, Vec<u8>)> = manifest
        .members
        .iter()
        .map(|member| {
            let text = cluster_yaml.filter(|_| member.name == "cluster.yaml").map(|text| text.as_bytes().to_vec());
            (member.name.clone(), text.unwrap_or_else(|| bundle.read(&member.name, 1 << 30).unwrap()))
        })
        .collect();
    manifest.members = contents
        .iter()
        .map(|(name, content)| Member { name: name.clone(), size: content.len() as u64, sha256: Digest::of(content) })
        .collect();
    change(&mut manifest);
    let inputs = contents.into_iter().map(|(name, content)| Input::bytes(name, content)).collect();
    kubexm_archive::write(target, &manifest, inputs, &Options::default(), &|_, _| {}).unwrap();
}

#[test]
fn a_bundle_that_lacks_what_its_cluster_needs_names_it() {
    let site = built();
    let wanted = extras("extraFiles: [{path: a.txt}, {path: b.bin}, {path: c.img}]");
    rewrite(&site, &site.path("less.tar.zst"), Some(&wanted), |_| {});
    let (text, document) = verify(&site, "less.tar.zst", ExitCode::BundleIncomplete);
    assert_contains(&text, &["missing", "file/c.img", "spec.bundle.extraFiles"]);
    assert_eq!((&document["bytes"]["ok"], &document["complete"]["checked"]), (&true.into(), &true.into()));
    assert_contains(document["complete"]["missing"][0].as_str().unwrap(), &["file/c.img"]);
    assert_eq!(document["complete"]["missing"].as_array().unwrap().len(), 1);
}

#[test]
fn a_cluster_yaml_inside_that_cannot_be_read_is_reported_in_the_same_form() {
    let site = built();
    rewrite(&site, &site.path("odd.tar.zst"), Some("kind: Other\n"), |_| {});
    let (text, document) = verify(&site, "odd.tar.zst", ExitCode::BundleDamaged);
    assert_contains(&text, &["cluster.yaml"]);
    assert_eq!((&document["bytes"]["ok"], &document["complete"]["ok"]), (&true.into(), &false.into()));
    // The other two answers are given all the same, and the worst is how it ends.
    let ended = site.run(&["verify", "--require-signature", "odd.tar.zst"]).must(ExitCode::BundleUntrusted);
    assert_contains(&ended.err, &["checksums match", "- signature: ", "- completeness: ", "cluster.yaml"]);
}
