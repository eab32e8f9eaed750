//! `list`, `diff` and `cat`: what they say of a bundle is what is in it.

use std::io::Write;
use std::process::{Command, Stdio};

use kubexm_spec::{Digest, ExitCode};
use serde_json::Value;

use crate::images::two_platforms;
use crate::site::{Site, assert_contains, noise};
use crate::verify::rewrite;

/// Two files (one of more than one frame) and an image, for both platforms: `out.tar.zst`.
pub fn sample() -> Site {
    let site = Site::new();
    two_platforms(site.path("layout"), "whatever");
    site.write("a.txt", "text ".repeat(2000));
    site.write("big.bin", noise(5, 9 << 20));
    rebuild(&site, "extraFiles: [{path: a.txt}, {path: big.bin}]");
    site
}

pub fn rebuild(site: &Site, files: &str) {
    site.extras(&format!(
        "platforms: [linux/amd64, linux/arm64]\n{files}\n\
         extraImages: [{{name: \"local.test/team/one:2\", from: \"oci:layout\"}}]"
    ));
    site.built(&[]);
}

fn texts(document: &Value, list: &str, field: &str) -> Vec<String> {
    document[list].as_array().unwrap().iter().map(|row| row[field].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn artifacts_are_listed_and_chosen_by_kind_and_platform() {
    let site = sample();
    let list = |more: &[&str]| {
        let document = site.run(&[&["list", "--json", "out.tar.zst"], more].concat()).must(ExitCode::Ok).document();
        assert_eq!(document["schema"], "kubexm.io/list/v1");
        (texts(&document, "artifacts", "key"), texts(&document, "artifacts", "platform"))
    };
    let image = "extra-image/local.test/team/one:2";
    assert_eq!(list(&[]).0, ["file/a.txt", "file/big.bin", image, image]);
    assert_eq!(list(&["--kind", "image"]).1, ["linux/amd64", "linux/arm64"]);
    assert_eq!(list(&["--kind", "image", "--platform", "linux/arm64"]).1, ["linux/arm64"]);
    assert_eq!(list(&["--platform", "linux/amd64"]).0, ["file/a.txt", "file/big.bin", image], "what is for all stays");
    assert_eq!(list(&["--kind", "binary"]).0, Vec::<String>::new());
    let lines = site.run(&["list", "out.tar.zst"]).must(ExitCode::Ok).out;
    assert_eq!(lines.lines().count(), 4);
    assert_contains(&lines, &["file/big.bin", "9.00 MiB", &Digest::of(noise(5, 9 << 20)).to_string()]);
    site.run(&["list", "--kind", "chart", "out.tar.zst"]).must(ExitCode::Usage);
}

/// The frames at the places that are reported, read by zstd alone, are the members.
#[test]
fn members_are_where_the_list_says_with_the_bytes_that_it_says() {
    let site = sample();
    let file = std::fs::read(site.path("out.tar.zst")).unwrap();
    let document = site.run(&["list", "--members", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    let rows = document["members"].as_array().unwrap();
    let (mut at, mut encodings) = (0, Vec::new());
    for row in rows {
        let number = |field: &str| row[field].as_u64().unwrap() as usize;
        assert_eq!(number("offset"), at, "{row}");
        at += number("stored");
        encodings.push(row["encoding"].as_str().unwrap());
        let mut zstd =
            Command::new("zstd").args(["-q", "-d", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut into = zstd.stdin.take().unwrap();
        let frames = file[number("offset")..at].to_vec();
        let feed = std::thread::spawn(move || into.write_all(&frames).unwrap());
        let stream = zstd.wait_with_output().unwrap().stdout;
        feed.join().unwrap();
        let content = &stream[512..512 + number("size")];
        if !["manifest.json.sig", "sources.json"].iter().any(|name| row["name"] == *name) {
            assert_eq!(row["digest"], Digest::of(content).to_string(), "{row}");
        }
    }
    assert!(encodings.contains(&"raw") && encodings.contains(&"zstd"));
    let of_image = site.run(&["list", "--members", "--kind", "image", "--json", "out.tar.zst"]).document();
    // An index, two manifests, two configs, three layers of which one is shared.
    assert_eq!(of_image["members"].as_array().unwrap().len(), 8);
    assert_eq!(site.run(&["list", "--members", "out.tar.zst"]).out.lines().count(), rows.len());
}

#[test]
fn a_diff_reports_artifacts_bytes_and_the_content_of_a_delta() {
    let site = sample();
    std::fs::rename(site.path("out.tar.zst"), site.path("old.tar.zst")).unwrap();
    site.write("a.txt", "other text ".repeat(900));
    site.write("new.bin", noise(6, 5000));
    rebuild(&site, "extraFiles: [{path: a.txt}, {path: new.bin}]");
    let diff = |old: &str, new: &str| site.run(&["diff", "--json", old, new]).must(ExitCode::Ok).document();
    let document = diff("old.tar.zst", "out.tar.zst");
    assert_eq!((&document["schema"], &document["differs"]), (&"kubexm.io/diff/v1".into(), &true.into()));
    assert_eq!(texts(&document, "artifacts", "key"), ["file/a.txt", "file/big.bin", "file/new.bin"]);
    assert_eq!(texts(&document, "artifacts", "change"), ["changed", "removed", "added"]);
    assert_eq!(document["artifacts"][0]["new"]["digest"], Digest::of("other text ".repeat(900)).to_string());
    assert_eq!(document["same"], 2);
    // Files have a small OCI manifest each beside their own bytes.
    let bytes = |of: &str| document["bytes"][of].as_u64().unwrap();
    assert!((14_900..17_000).contains(&bytes("added")), "{document}");
    assert!(((9 << 20) + 10_000..(9 << 20) + 12_000).contains(&bytes("removed")), "{document}");
    let delta = &document["delta"];
    let carried = delta["bytes"].as_u64().unwrap();
    assert!(carried > bytes("added") && carried < bytes("added") + 10_000, "{document}");
    assert!(delta["stored"].as_u64().unwrap() < carried, "text is compressed");

    for name in ["old", "out"] {
        let bundle = format!("{name}.tar.zst");
        site.write(&format!("{name}.json"), site.run(&["cat", &bundle, "manifest.json"]).must(ExitCode::Ok).out);
    }
    let bare = diff("old.json", "out.json");
    assert_eq!(bare["artifacts"], document["artifacts"]);
    assert_eq!((&bare["bytes"], &bare["delta"]["stored"]), (&document["bytes"], &Value::Null));
    assert_eq!(bare["old"]["manifest"], document["old"]["manifest"]);
    let text = site.run(&["diff", "old.json", "out.tar.zst"]).must(ExitCode::Ok).out;
    assert_contains(
        &text,
        &["~ file/a.txt", "- file/big.bin", "+ file/new.bin", "~ lock.yaml", "1 artifact added, 1 removed, 1 changed"],
    );
}

#[test]
fn a_diff_ends_like_gits_when_it_is_asked_to() {
    let site = sample();
    site.write("same.json", site.run(&["cat", "out.tar.zst", "manifest.json"]).must(ExitCode::Ok).out);
    let same = site.run(&["diff", "--exit-code", "same.json", "out.tar.zst"]).must(ExitCode::Ok);
    assert_eq!(same.out, "no difference\n");
    std::fs::rename(site.path("out.tar.zst"), site.path("old.tar.zst")).unwrap();
    rebuild(&site, "extraFiles: [{path: a.txt}]");
    site.run(&["diff", "old.tar.zst", "out.tar.zst"]).must(ExitCode::Ok);
    let differs = site.run(&["diff", "--exit-code", "old.tar.zst", "out.tar.zst"]).must(ExitCode::Differs);
    assert_eq!(differs.err, "", "a difference is no error");
}

#[test]
fn a_diff_refuses_what_is_neither_a_bundle_nor_a_manifest() {
    let site = sample();
    let manifest = site.run(&["cat", "out.tar.zst", "manifest.json"]).must(ExitCode::Ok).out;
    let refused = |name: &str, content: &str, code| {
        site.write(name, content);
        assert_contains(&site.run(&["diff", name, "out.tar.zst"]).must(code).err, &[name]);
    };
    refused("cut.json", &manifest[..manifest.len() / 2], ExitCode::NotABundle);
    refused("other.json", "{\"format\":1}", ExitCode::NotABundle);
    refused("newer.json", &manifest.replacen("\"format\":2", "\"format\":3", 1), ExitCode::BundleNewer);
    refused("notes.txt", "just text", ExitCode::NotABundle);
}

#[test]
fn cat_writes_the_item_and_nothing_else_to_standard_output() {
    let site = sample();
    let cat = |item: &str| site.run(&["cat", "out.tar.zst", item]).must(ExitCode::Ok).out;
    assert_eq!(cat("cluster.yaml"), std::fs::read_to_string(site.path("cluster.yaml")).unwrap());
    let text = "text ".repeat(2000);
    let digest = Digest::of(&text);
    for item in ["file/a.txt", &digest.to_string(), &format!("blobs/sha256/{}", digest.hex())] {
        assert_eq!(cat(item), text, "{item}");
    }
    let signature = cat("manifest.json.sig");
    assert_eq!((signature.len(), signature.trim()), (16384, "[]"));
    // Of an image each blob has a digest of its own.
    let listed = site.run(&["list", "--json", "--kind", "image", "out.tar.zst"]).document();
    let index: Value = serde_json::from_str(&cat(listed["artifacts"][0]["digest"].as_str().unwrap())).unwrap();
    assert_eq!(index["manifests"].as_array().unwrap().len(), 2);
    let image = site.run(&["cat", "out.tar.zst", "local.test/team/one:2"]).must(ExitCode::Usage);
    assert_contains(&image.err, &["an image", "extract"]);
    let typo = site.run(&["cat", "out.tar.zst", "cluster.yml"]).must(ExitCode::BundleIncomplete);
    assert_contains(&typo.err, &["cluster.yml", "the nearest: cluster.yaml"]);
    assert_eq!(typo.out, "");
}

fn range(site: &Site, range: &str) -> (i32, Vec<u8>, String) {
    let output = site.program().args(["cat", "out.tar.zst", "file/big.bin", "--range", range]).output().unwrap();
    (output.status.code().unwrap(), output.stdout, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_range_is_those_bytes_wherever_frames_end() {
    let site = sample();
    let big = noise(5, 9 << 20);
    let edge = (8 << 20) - 512; // Where the first frame of a member ends.
    for (from, to) in [(0, 0), (0, 99), (edge - 3, edge + 3), (big.len() - 5, big.len() - 1), (1, big.len() - 1)] {
        let (code, out, err) = range(&site, &format!("{from}-{to}"));
        assert!(code == 0 && out == big[from..=to], "{from}-{to}: {} bytes, {err}", out.len());
    }
    assert_eq!(range(&site, &format!("{}-", edge + 7)).1, big[edge + 7..]);
    assert_eq!(range(&site, "9437180-99999999").1, big[9_437_180..], "as HTTP has it, the end may lie beyond");
    let (code, out, err) = range(&site, "9437185-");
    assert_eq!((code, out.len()), (2, 0), "{err}");
}

#[test]
fn damage_is_reported_where_it_lies_in_a_range_and_only_there() {
    let site = sample();
    let mut bytes = std::fs::read(site.path("out.tar.zst")).unwrap();
    let listed = site.run(&["list", "--members", "--json", "out.tar.zst"]).document();
    let is_big = |row: &&Value| row["size"] == 9 << 20;
    let offset = listed["members"].as_array().unwrap().iter().find(is_big).unwrap()["offset"].as_u64().unwrap();
    bytes[offset as usize + 1_000_000] ^= 1;
    site.write("out.tar.zst", bytes);
    let (code, out, err) = range(&site, "0-99");
    assert_eq!((code, out.len()), (30, 0), "nothing of a damaged frame is given: {err}");
    assert_contains(&err, &["damaged", "out.tar.zst"]);
    assert_eq!(range(&site, "9000000-9000099").1, noise(5, 9 << 20)[9_000_000..9_000_100]);
    site.run(&["cat", "out.tar.zst", "file/a.txt"]).must(ExitCode::Ok);
}

#[test]
fn cat_ends_without_an_error_when_the_reader_closes_the_pipe() {
    let site = sample();
    let program = assert_cmd::cargo::cargo_bin("kubexm-bundle");
    let shell = format!("set -o pipefail; {} cat out.tar.zst file/big.bin | head -c 10 | wc -c", program.display());
    let output = Command::new("bash").args(["-c", &shell]).current_dir(site.path("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "10");
}

/// Verbs whose work is what they print.
const PRINTING: [&str; 9] = [
    "inspect out.tar.zst",
    "inspect --json out.tar.zst",
    "inspect --manifest out.tar.zst",
    "list out.tar.zst",
    "diff out.tar.zst out.tar.zst",
    "cat out.tar.zst file/big.bin",
    "sbom out.tar.zst --format spdx",
    "provenance out.tar.zst",
    "build -f cluster.yaml --dry-run",
];

/// How a verb ends that prints there, and what it says of it.
fn into(site: &Site, verb: &str, stdout: impl Into<Stdio>) -> (i32, String) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("kubexm-bundle"));
    command.args(verb.split(' ')).current_dir(site.path("")).env("KUBEXM_HOME", site.path("kubexm"));
    let output = command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_closed_pipe_is_no_error_for_any_command_that_prints() {
    let site = sample();
    for verb in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(into(&site, verb, writer), (0, String::new()), "{verb}");
    }
}

#[test]
fn an_answer_that_did_not_get_onto_the_disk_is_an_error() {
    let site = sample();
    for verb in PRINTING {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let (code, text) = into(&site, verb, full);
        assert_eq!(code, i32::from(ExitCode::Disk.code()), "{verb}: {text}");
        assert_contains(&text, &["standard output", "No space left"]);
    }
}

#[test]
fn control_characters_in_names_of_a_bundle_do_not_reach_the_terminal() {
    let site = sample();
    rewrite(&site, &site.path("bad.tar.zst"), None, |manifest| {
        manifest.artifacts[0].version = "1\u{1b}[2J".to_owned();
        manifest.artifacts[0].name = "\u{1b}]0;x\u{7}".to_owned();
    });
    for verb in [&["list", "bad.tar.zst"][..], &["inspect", "bad.tar.zst"], &["diff", "out.tar.zst", "bad.tar.zst"]] {
        let ended = site.run(verb).must(ExitCode::Ok);
        assert!(!ended.out.contains(['\u{1b}', '\u{7}']), "{verb:?}: {:?}", ended.out);
    }
    let refused = site.run(&["extract", "bad.tar.zst", "file/a.txt"]).must(ExitCode::BundleDamaged);
    assert!(!refused.err.contains('\u{1b}'));
}
