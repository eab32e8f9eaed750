//! Files and layers of this machine are packed from where they lie: nothing of them is copied into the cache, and what is packed is
//! compared with what was locked.

use kubexm_spec::{Digest, ExitCode};

use crate::images::two_platforms;
use crate::server::{Server, file};
use crate::site::{Site, assert_contains, noise, wanted};

fn cached(site: &Site, digest: &Digest) -> bool {
    site.cache("blobs/sha256").contains(&digest.hex())
}

#[test]
fn files_and_layers_of_this_machine_are_not_copied_into_the_cache() {
    let site = Site::new();
    let large = noise(5, 9 << 20);
    site.write("large", &large);
    let (_, index, _) = two_platforms(site.path("layout"), "whatever");
    site.extras(
        "platforms: [linux/amd64]\nextraFiles: [{path: large}]\n\
         extraImages: [{name: \"local.test/one:2\", from: \"oci:layout\"}]",
    );
    let bundle = site.built(&[]);
    site.run(&["verify", bundle.to_str().unwrap()]).must(ExitCode::Ok);
    assert!(!cached(&site, &Digest::of(&large)));
    assert!(cached(&site, &index.digest), "indexes and manifests are small, and questions are asked of them");
    let manifest = kubexm_archive::Bundle::open(&bundle).unwrap().manifest().clone();
    let layers =
        manifest.artifacts.iter().filter(|artifact| artifact.manifest.is_some()).flat_map(|image| &image.blobs);
    let absent = layers.filter(|blob| !cached(&site, &blob.digest)).count();
    assert!(absent > 0, "no layer was left where it lies");
    // The lock has the same, and builds the same bytes.
    let first = std::fs::read(&bundle).unwrap();
    site.run(&["lock", "-f", "cluster.yaml"]).must(ExitCode::Ok);
    assert!(std::fs::read(site.built(&["--locked", "--cache", "other"])).unwrap() == first);
    assert!(!site.path("other/blobs/sha256").join(Digest::of(&large).hex()).exists());
}

#[test]
fn a_locked_file_with_other_bytes_of_the_same_length_is_found_while_it_is_packed() {
    let site = Site::new();
    site.write("notes.txt", "one way\n");
    site.extras("extraFiles: [{path: notes.txt}]");
    site.run(&["lock", "-f", "cluster.yaml"]).must(ExitCode::Ok);
    site.write("notes.txt", "another\n");
    let text = site.refused(ExitCode::LockDrift, &["--locked"]);
    let (locked, now) = (Digest::of("one way\n").to_string(), Digest::of("another\n").to_string());
    assert_contains(&text, &["file/notes.txt: digest: the lock has", &locked, "this machine has", &now]);
    site.write("notes.txt", "one way\n");
    site.built(&["--locked"]);
}

/// A base has the locked bytes, so the file is not packed; it is compared all the same.
#[test]
fn a_locked_file_that_a_base_has_is_compared_too() {
    let site = Site::new();
    site.write("notes.txt", "one way\n");
    site.write("more.txt", "more\n");
    site.extras("extraFiles: [{path: notes.txt}]");
    site.built(&[]);
    std::fs::rename(site.path("out.tar.zst"), site.path("base.zst")).unwrap();
    site.extras("extraFiles: [{path: notes.txt}, {path: more.txt}]");
    site.run(&["lock", "-f", "cluster.yaml"]).must(ExitCode::Ok);
    site.write("notes.txt", "another\n");
    let text = site.refused(ExitCode::LockDrift, &["--locked", "--base", "base.zst"]);
    assert_contains(&text, &["file/notes.txt: digest: the lock has"]);
}

/// The file of the server is packed first, by its digest, and it is fetched after everything was compared with the lock.
#[test]
fn a_file_that_is_changed_while_others_are_fetched_is_refused_by_name() {
    let site = Site::new();
    let before = noise(6, 40_000);
    let path = site.write("notes", &before);
    let body = (0..).map(|seed| noise(seed, 30_000)).find(|body| Digest::of(body) < Digest::of(&before)).unwrap();
    let (served, locked) = (body.clone(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let server = Server::start({
        let locked = std::sync::Arc::clone(&locked);
        move |request| {
            if locked.load(std::sync::atomic::Ordering::SeqCst) {
                std::fs::write(&path, noise(7, 40_000)).unwrap();
            }
            file(request, &served)
        }
    });
    site.extras(&format!("extraFiles:\n{}\n- {{path: notes}}", wanted(&server.url("tool"), &body)));
    site.run(&["lock", "-f", "cluster.yaml"]).must(ExitCode::Ok);
    locked.store(true, std::sync::atomic::Ordering::SeqCst);
    let text = site.refused(ExitCode::LockDrift, &["--locked", "--cache", "other"]);
    let (locked, now) = (Digest::of(&before).to_string(), Digest::of(noise(7, 40_000)).to_string());
    assert_contains(&text, &["file/notes: digest: the lock has", &locked, "this machine has", &now]);
}

#[test]
fn a_layer_of_a_layout_that_is_not_what_its_name_says_is_refused_by_name() {
    let site = Site::new();
    two_platforms(site.path("layout"), "whatever");
    site.extras("platforms: [linux/amd64]\nextraImages: [{name: \"local.test/one:2\", from: \"oci:layout\"}]");
    let bundle = site.built(&[]);
    let manifest = kubexm_archive::Bundle::open(&bundle).unwrap().manifest().clone();
    std::fs::remove_file(bundle).unwrap();
    let mut blobs: Vec<_> = manifest.artifacts.iter().flat_map(|artifact| artifact.blobs.clone()).collect();
    blobs.retain(|blob| !cached(&site, &blob.digest));
    let layer = blobs.first().unwrap();
    let path = site.path("layout/blobs/sha256").join(layer.digest.hex());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[0] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let text = site.refused(ExitCode::OriginMismatch, &[]);
    assert_contains(&text, &[&layer.digest.hex(), "does not have the digest"]);
}
