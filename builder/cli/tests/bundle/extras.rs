//! Bundles of extras only: what goes in comes out, by our own program and by stock tools, always as the same bytes.

use std::process::Command;

use kubexm_spec::{Digest, ExitCode};

use crate::images::{Maker, two_platforms};
use crate::registry::{Registry, Setup};
use crate::server::Server;
use crate::site::{Site, assert_contains, digest, names, noise, wanted};

/// Two files and two images of two platforms each, one of a registry and one of a folder.
struct Full {
    site: Site,
    server: Server,
    registry: Registry,
    indexes: [Digest; 2],
}

impl Full {
    fn new(platforms: &str) -> Self {
        let (site, registry) = (Site::new(), Registry::start(Setup::default()));
        let body = noise(1, 300_000);
        let server = Server::files(vec![("tools/tool.bin", body.clone())]);
        let (pushed, remote, _) = two_platforms(site.path("made"), "v1");
        registry.push(pushed.path(), "mirror/team/app", "v1");
        let (_, local, _) = two_platforms(site.path("layout"), "whatever");
        site.write("notes.txt", "read me\n".repeat(100));
        site.zone("registry.test", &format!("{}/mirror", registry.address));
        site.extras(&format!(
            "platforms: [{platforms}]\nzone: zone.yaml\nextraFiles:\n{}\n- {{path: notes.txt}}\nextraImages:\n\
             - {{name: \"registry.test/team/app:v1\"}}\n- {{name: \"local.test/one:2\", from: \"oci:layout\"}}",
            wanted(&server.url("tools/tool.bin"), &body)
        ));
        Self { site, server, registry, indexes: [remote.digest, local.digest] }
    }
}

#[test]
fn a_bundle_of_extras_verifies_and_shows_what_is_in_it() {
    let full = Full::new("linux/amd64");
    let bundle = full.site.built(&[]);
    let name = bundle.to_str().unwrap();
    let verified = full.site.run(&["verify", "--json", name]).must(ExitCode::Ok).document();
    assert_eq!((&verified["bytes"]["ok"], &verified["complete"]["ok"]), (&true.into(), &true.into()));
    assert_contains(
        &full.site.run(&["verify", name]).must(ExitCode::Ok).out,
        &["OK: checksums match, complete", "4 artifacts"],
    );

    let shown = full.site.run(&["inspect", "--json", name]).must(ExitCode::Ok).document();
    assert_eq!(shown["cluster"], serde_json::Value::Null);
    let artifacts: Vec<(&str, &str, &str)> = shown["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| (a["key"].as_str().unwrap(), a["trust"].as_str().unwrap(), a["digest"].as_str().unwrap()))
        .collect();
    let digest_of = |bytes: &[u8]| Digest::of(bytes).to_string();
    let [remote, local] = full.indexes.map(|index| index.to_string());
    assert_eq!(
        artifacts,
        [
            ("file/notes.txt", "user", digest_of("read me\n".repeat(100).as_bytes()).as_str()),
            ("file/tool.bin", "user", digest_of(&noise(1, 300_000)).as_str()),
            ("extra-image/local.test/one:2", "user", local.as_str()),
            ("extra-image/registry.test/team/app:v1", "mirror", remote.as_str()),
        ]
    );
    let text = full.site.run(&["inspect", name]).must(ExitCode::Ok).out;
    assert_contains(
        &text,
        &["extra-image/registry.test/team/app:v1", &full.server.url("tools/tool.bin"), "zone      lab"],
    );
}

#[test]
fn stock_tools_read_a_bundle_and_a_sparse_index_stays_byte_for_byte() {
    let full = Full::new("linux/amd64");
    let folder = full.site.unpack(&full.site.built(&[]));
    let blobs = names(&folder.join("blobs/sha256"));
    for name in &blobs {
        assert_eq!(digest(&folder.join("blobs/sha256").join(name)).hex(), *name);
    }
    for index in full.indexes {
        let made = full.site.path("made/blobs/sha256").join(index.hex());
        assert_eq!(std::fs::read(folder.join("blobs/sha256").join(index.hex())).unwrap(), std::fs::read(made).unwrap());
    }
    // The other platform's layer is not carried.
    assert!(!blobs.contains(&Digest::of(noise(13, 60_000)).hex()));
    for reference in ["registry.test/team/app:v1", "local.test/one:2"] {
        let out = full.site.path(&format!("copied-{}", reference.len()));
        let status = Command::new("skopeo")
            .args(["copy", "--insecure-policy", "--quiet", "--override-os=linux", "--override-arch=amd64"])
            .arg(format!("oci:{}:{reference}", folder.display()))
            .arg(format!("dir:{}", out.display()))
            .status()
            .unwrap();
        assert!(status.success(), "skopeo cannot read {reference}");
        assert!(names(&out).contains(&Digest::of(noise(12, 60_000)).hex()));
    }
}

#[test]
fn two_platforms_of_an_image_are_one_name_with_both_manifests() {
    let full = Full::new("linux/amd64, linux/arm64");
    let folder = full.site.unpack(&full.site.built(&[]));
    let index: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.join("index.json")).unwrap()).unwrap();
    let named: Vec<&serde_json::Value> = index["manifests"].as_array().unwrap().iter().collect();
    assert_eq!(named.len(), 4, "two files, two images: {index}");
    for arch in ["amd64", "arm64"] {
        let status = Command::new("skopeo")
            .args(["copy", "--insecure-policy", "--quiet", "--override-os=linux"])
            .arg(format!("--override-arch={arch}"))
            .arg(format!("oci:{}:registry.test/team/app:v1", folder.display()))
            .arg(format!("dir:{}", full.site.path(arch).display()))
            .status()
            .unwrap();
        assert!(status.success(), "{arch} is not there");
    }
}

#[test]
fn the_same_input_gives_the_same_bytes_whatever_the_number_of_jobs_and_the_state_of_the_cache() {
    let full = Full::new("linux/amd64, linux/arm64");
    let first = digest(&full.site.built(&["--jobs", "1"]));
    let asked = full.server.requests().len();
    assert_eq!(digest(&full.site.built(&["--jobs", "8"])), first);
    assert_eq!(full.server.requests().len(), asked, "a file that is in the cache is not asked for again");
    let other = full.site.path("other cache");
    assert_eq!(digest(&full.site.built(&["--jobs", "8", "--cache", other.to_str().unwrap()])), first);
    drop(full.registry);
}

#[test]
fn the_lock_is_sorted_and_contains_no_addresses() {
    let full = Full::new("linux/arm64, linux/amd64");
    let folder = full.site.unpack(&full.site.built(&[]));
    let lock = std::fs::read_to_string(folder.join("lock.yaml")).unwrap();
    let keys: Vec<&str> =
        lock.lines().filter_map(|line| line.trim_start_matches(['-', ' ']).strip_prefix("key: ")).collect();
    assert_eq!(
        keys,
        [
            "file/notes.txt",
            "file/tool.bin",
            "extra-image/local.test/one:2",
            "extra-image/local.test/one:2",
            "extra-image/registry.test/team/app:v1",
            "extra-image/registry.test/team/app:v1",
        ]
    );
    let place = |text: &str| lock.rfind(text).unwrap_or_else(|| panic!("{text} is not in {lock}"));
    assert!(place("platform: linux/amd64") < place("platform: linux/arm64"));
    assert!(!lock.contains(&full.registry.address) && !lock.contains("sources"), "{lock}");
    assert_eq!(
        std::fs::read(folder.join("cluster.yaml")).unwrap(),
        std::fs::read(full.site.path("cluster.yaml")).unwrap()
    );
}

#[test]
fn an_extra_file_may_be_a_page_or_json() {
    let site = Site::new();
    let bodies = [("page.html", "<!DOCTYPE html><html></html>"), ("board.json", "{\"panels\": []}")];
    let server = Server::start(move |request| {
        let (name, body) = bodies.iter().find(|(name, _)| *name == request.path).unwrap();
        let kind = if name.ends_with("html") { "text/html" } else { "application/json" };
        crate::server::Reply::new(200, *body).header("content-type", kind)
    });
    let files: Vec<String> = bodies.iter().map(|(name, body)| wanted(&server.url(name), body.as_bytes())).collect();
    site.extras(&format!("extraFiles:\n{}", files.join("\n")));
    site.built(&[]);
}

/// As `skopeo copy … oci:DIR:TAG` writes one after the other.
#[test]
fn of_a_layout_with_several_images_the_one_with_the_tag_is_taken() {
    let site = Site::new();
    let maker = Maker::new(site.path("layout"));
    let [old, new] = [21, 22].map(|seed| maker.index(&[("amd64", &maker.manifest("amd64", seed))]));
    maker.finish(&[("1.0", &old), ("2.0", &new)]);
    let extras = |tag: &str| {
        site.extras(&format!(
            "platforms: [linux/amd64]\nextraImages:\n- {{name: \"local.test/one:{tag}\", from: \"oci:layout\"}}"
        ));
    };
    extras("3.0");
    assert_contains(&site.refused(ExitCode::OriginMismatch, &[]), &["2 images fit", "1.0, 2.0"]);
    extras("2.0");
    let folder = site.unpack(&site.built(&[]));
    assert!(folder.join("blobs/sha256").join(new.digest.hex()).exists());
    assert!(!folder.join("blobs/sha256").join(old.digest.hex()).exists());
}
