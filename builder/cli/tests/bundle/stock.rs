//! Programs that know nothing of us read a bundle of real images: skopeo, umoci and oras copy and unpack what tar, bsdtar
//! and `extract` bring out. Needs Debian's skopeo, umoci and libarchive-tools, and oras from the lab (`scripts/lab build`).

use std::io::Write;
use std::process::Command;

use kubexm_spec::Digest;
use kubexm_spec::lock::Descriptor;
use serde_json::{Value, json};

use crate::images::Maker;
use crate::materials::lab;
use crate::site::{Site, names, noise};

/// What the images are called upstream: one with an index of two platforms, one that is a single manifest.
const MANY: &str = "registry.test/team/many:1.2";
const SINGLE: &str = "registry.test/team/single:1.2";

/// Images with a layer that holds files, compressed as registries have it, for the platforms of the bundle.
struct Images {
    site: Site,
}

impl Images {
    fn new(platforms: &str) -> Self {
        let site = Site::new();
        let many = Maker::new(site.path("many"));
        let both = [image(&many, "amd64"), image(&many, "arm64")];
        let index = many.index(&[("amd64", &both[0]), ("arm64", &both[1])]);
        many.finish(&[("x", &index)]);
        let single = Maker::new(site.path("single"));
        let manifest = image(&single, "amd64");
        single.finish(&[("x", &manifest)]);
        site.write("notes.txt", "read me\n".repeat(100));
        let of_one = if platforms.contains("arm64") {
            ""
        } else {
            "- {name: \"registry.test/team/single:1.2\", from: \"oci:single\"}"
        };
        site.extras(&format!(
            "platforms: [{platforms}]\nextraFiles: [{{path: notes.txt}}]\nextraImages:\n\
             - {{name: \"{MANY}\", from: \"oci:many\"}}\n{of_one}"
        ));
        site.built(&[]);
        Self { site }
    }

    /// Runs a line of shell in the site's folder.
    #[track_caller]
    fn shell(&self, line: &str) -> String {
        let (ok, out, err) = self.tried(line);
        assert!(ok, "{line}: {out}{err}");
        out
    }

    fn tried(&self, line: &str) -> (bool, String, String) {
        let (program, oras) = (assert_cmd::cargo::cargo_bin("kubexm-bundle"), lab().join("bin/oras"));
        assert!(oras.exists(), "{} is needed: scripts/lab build makes it", oras.display());
        let output = Command::new("bash")
            .args(["-c", &format!("set -eu -o pipefail; {line}")])
            .current_dir(self.site.path(""))
            .env("KB", program)
            .env("ORAS", oras)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    }

    /// The digest that a layout's index.json has under a name.
    fn digest(&self, layout: &str, name: &str) -> String {
        let index = std::fs::read(self.site.path(layout).join("index.json")).unwrap();
        let index: Value = serde_json::from_slice(&index).unwrap();
        let entries = index["manifests"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["annotations"]["org.opencontainers.image.ref.name"] == name);
        entry.unwrap_or_else(|| panic!("no {name} in {index}"))["digest"].as_str().unwrap().to_owned()
    }

    fn has(&self, folder: &str, arch: &str) -> bool {
        names(&self.site.path(folder)).contains(&Digest::of(layer(arch).1).hex())
    }
}

/// A layer with one file that says its architecture: plain, and as registries have it.
fn layer(arch: &str) -> (Vec<u8>, Vec<u8>) {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in [("arch", arch.as_bytes().to_vec()), ("data", noise(8, 40_000))] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, content.as_slice()).unwrap();
    }
    let plain = tar.into_inner().unwrap();
    let mut gzip = Command::new("gzip")
        .arg("-n")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut into = gzip.stdin.take().unwrap();
    let feed = std::thread::spawn({
        let plain = plain.clone();
        move || into.write_all(&plain).unwrap()
    });
    let compressed = gzip.wait_with_output().unwrap().stdout;
    feed.join().unwrap();
    (plain, compressed)
}

fn image(maker: &Maker, arch: &str) -> Descriptor {
    let (plain, compressed) = layer(arch);
    let layer = maker.blob("application/vnd.oci.image.layer.v1.tar+gzip", &compressed);
    let config = maker.json(
        "application/vnd.oci.image.config.v1+json",
        &json!({
            "architecture": arch, "os": "linux", "config": {},
            "rootfs": { "type": "layers", "diff_ids": [Digest::of(plain)] },
        }),
    );
    let manifest = "application/vnd.oci.image.manifest.v1+json";
    maker.json(manifest, &json!({"schemaVersion": 2, "mediaType": manifest, "config": config, "layers": [layer]}))
}

#[test]
fn a_bundle_of_one_platform_unpacked_by_stock_tools_is_a_layout_for_skopeo_umoci_and_oras() {
    let images = Images::new("linux/amd64");
    images.shell("zstd -q -t out.tar.zst; mkdir tar bsd");
    images.shell("tar --zstd -xf out.tar.zst -C tar; zstd -q -d -c out.tar.zst | bsdtar -xf - -C bsd; diff -r tar bsd");
    images.shell("cd tar/blobs/sha256; for blob in *; do echo \"$blob  $blob\"; done | sha256sum -c --quiet");
    for (to, name) in [("s-many", MANY), ("s-single", SINGLE)] {
        images.shell(&format!(
            "skopeo copy --insecure-policy -q --override-os linux --override-arch amd64 oci:tar:{name} dir:{to}"
        ));
        assert!(images.has(to, "amd64"), "{name}");
    }
    // umoci reads names of single manifests: an index of which one platform is carried is ambiguous to it.
    images.shell(&format!("umoci unpack --rootless --image tar:{SINGLE} u-single"));
    assert_eq!(std::fs::read_to_string(images.site.path("u-single/rootfs/arch")).unwrap(), "amd64");
    assert!(images.tried(&format!("umoci unpack --rootless --image tar:{MANY} u-many")).2.contains("ambiguous"));
    // oras takes no tag with a colon: it is asked by digest.
    let many = images.digest("tar", MANY);
    images.shell(&format!("$ORAS copy --platform linux/amd64 --from-oci-layout tar@{many} --to-oci-layout o-many:x"));
    assert!(images.has("o-many/blobs/sha256", "amd64"));
    images.shell("$ORAS pull --oci-layout tar:kubexm/file/notes.txt -o o-file; cmp o-file/notes.txt notes.txt");
}

#[test]
fn every_platform_of_an_unpacked_bundle_is_there_for_skopeo_and_oras() {
    let images = Images::new("linux/amd64, linux/arm64");
    images.shell("mkdir tar; tar --zstd -xf out.tar.zst -C tar");
    images.shell(&format!("skopeo copy --all --insecure-policy -q oci:tar:{MANY} dir:all"));
    assert!(images.has("all", "amd64") && images.has("all", "arm64"));
    let many = images.digest("tar", MANY);
    images.shell(&format!("$ORAS copy --from-oci-layout tar@{many} --to-oci-layout oras:x"));
    assert!(images.has("oras/blobs/sha256", "amd64") && images.has("oras/blobs/sha256", "arm64"));
}

#[test]
fn extracted_images_are_read_by_skopeo_umoci_and_oras() {
    let images = Images::new("linux/amd64, linux/arm64");
    let folder = "registry.test_team_many_1.2";
    images.shell(&format!(
        "$KB extract out.tar.zst {MANY} -C both; $KB extract out.tar.zst {MANY} --platform linux/arm64 -C arm"
    ));
    images.shell(&format!("skopeo copy --all --insecure-policy -q oci:both/{folder}:{MANY} dir:s-both"));
    assert!(images.has("s-both", "amd64") && images.has("s-both", "arm64"));
    // One platform by itself: every tool reads it without being told which.
    images.shell(&format!("skopeo copy --insecure-policy -q oci:arm/{folder}:{MANY} dir:s-arm"));
    assert!(images.has("s-arm", "arm64") && !images.has("s-arm", "amd64"));
    images.shell(&format!("umoci unpack --rootless --image arm/{folder}:{MANY} u-arm"));
    assert_eq!(std::fs::read_to_string(images.site.path("u-arm/rootfs/arch")).unwrap(), "arm64");
    let digest = images.digest(&format!("arm/{folder}"), MANY);
    images.shell(&format!("$ORAS copy --from-oci-layout arm/{folder}@{digest} --to-oci-layout o-arm:x"));
    assert!(images.has("o-arm/blobs/sha256", "arm64"));
    // What the tag names upstream keeps its digest.
    let made: Value = serde_json::from_slice(&std::fs::read(images.site.path("many/index.json")).unwrap()).unwrap();
    assert_eq!(images.digest(&format!("both/{folder}"), MANY), made["manifests"][0]["digest"].as_str().unwrap());
}

#[test]
fn an_oci_archive_and_a_layout_of_several_items_are_read_by_skopeo_and_oras() {
    let images = Images::new("linux/amd64, linux/arm64");
    images.shell(&format!("$KB extract out.tar.zst {MANY} --platform linux/amd64 --oci-archive many.tar"));
    images.shell(&format!("skopeo copy --insecure-policy -q oci-archive:many.tar:{MANY} dir:s-archive"));
    assert!(images.has("s-archive", "amd64"));
    images.shell(&format!("$KB extract out.tar.zst {MANY} file/notes.txt --layout -C layout"));
    images.shell(&format!("skopeo copy --all --insecure-policy -q oci:layout:{MANY} dir:s-layout"));
    images.shell("$ORAS pull --oci-layout layout:kubexm/file/notes.txt -o o-file; cmp o-file/notes.txt notes.txt");
    images.shell(&format!("$KB extract out.tar.zst {MANY} file/notes.txt --oci-archive both.tar; mkdir both; tar -xf both.tar -C both; diff -r both layout"));
}
