//! What becomes of indexes whose platforms are not all in the bundle, and the map in each form.

use kubexm_seed::{MapForm, map_text};
use kubexm_spec::{Digest, Platform};
use serde_json::Value;

use crate::bundles::{Maker, noise};
use crate::registry::{Registry, Setup};
use crate::site::{fails, notes, options, run};

const BOTH: [Platform; 2] = [Platform::LINUX_AMD64, Platform::LINUX_ARM64];
const ONE: [Platform; 1] = [Platform::LINUX_AMD64];

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_names_the_only_platform_where_the_index_has_more_and_its_signature_is_said_to_be_left_out() {
    let registry = Registry::start(Setup::default());
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&ONE);
    let app = maker.image("quay.io/a/app:1", &[noise(1, 5000)], 3);
    maker.attach("quay.io/a/app:1", &app.target, true);
    let own = maker.attach("quay.io/a/app:1", &app.manifests[&Platform::LINUX_AMD64], true);
    let bundle = maker.bundle(folder.path());
    let (seeded, notes) = notes(&bundle, &options(folder.path(), &registry.address)).await;
    let manifest = app.manifests[&Platform::LINUX_AMD64].digest;
    assert_eq!(Digest::of(registry.raw("mirror/quay.io/a/app:1")), manifest);
    assert_eq!(seeded.entries[0].upstream_digest, Some(app.target.digest));
    assert_eq!(seeded.entries[0].referrers, vec![own], "the manifest's own signature goes along");
    assert!(notes.iter().any(|note| note.contains("left out")), "{notes:?}");
    registry.raw(&format!("mirror/quay.io/a/app:sha256-{}.sig", manifest.hex()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_names_an_index_of_the_platforms_that_are_there() {
    let registry = Registry::start(Setup::default());
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&BOTH);
    let app = maker.image("quay.io/a/app:1", &[noise(1, 5000)], 2);
    let bundle = maker.bundle(folder.path());
    let (seeded, notes) = notes(&bundle, &options(folder.path(), &registry.address)).await;
    let index: Value = serde_json::from_slice(&registry.raw("mirror/quay.io/a/app:1")).unwrap();
    let listed: Vec<&str> =
        index["manifests"].as_array().unwrap().iter().map(|one| one["digest"].as_str().unwrap()).collect();
    let own: Vec<String> = app.manifests.values().map(|one| one.digest.to_string()).collect();
    assert_eq!(listed, own);
    assert_ne!(seeded.entries[0].digest, app.target.digest);
    assert!(notes.iter().any(|note| note.contains("index of the platforms")), "said before: {notes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_named_by_the_digest_of_such_an_index_is_refused_before_anything_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&ONE);
    let app = maker.image("quay.io/a/app:0", &[noise(1, 5000)], 1);
    let pinned = format!("quay.io/a/app:1@{}", app.target.digest);
    let mut again = Maker::new(&ONE);
    again.image(&pinned, &[noise(1, 5000)], 1);
    let (text, code) = fails(&again.bundle(folder.path()), &options(folder.path(), "127.0.0.1:1")).await;
    assert_eq!(code, 33, "{text}");
    assert!(text.contains(&pinned) && text.contains("--sparse-indexes"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn maps_are_in_the_forms_that_clusters_read() {
    let registry = Registry::start(Setup::default());
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&ONE);
    maker.image("quay.io/a/app:1", &[noise(1, 100)], 0);
    maker.image("registry.k8s.io/pause:3.10", &[noise(2, 100)], 0);
    let bundle = maker.bundle(folder.path());
    let options = options(folder.path(), &registry.address);
    let seeded = run(&bundle, &options).await.unwrap();
    let text = |form| map_text(form, &options.naming, &seeded, true);
    let at = format!("{}/mirror", registry.address);
    let map = text(MapForm::Map);
    assert!(map.contains("kubexm.io/seed-map/v1") && map.contains(&format!("{at}/quay.io/a/app:1")), "{map}");
    let mirrors = text(MapForm::MirrorSet);
    assert!(mirrors.contains("ImageDigestMirrorSet") && mirrors.contains("ImageTagMirrorSet"), "{mirrors}");
    assert!(mirrors.contains("source: quay.io") && mirrors.contains(&format!("{at}/quay.io")), "{mirrors}");
    let conf = text(MapForm::RegistriesConf);
    assert!(conf.contains("prefix = \"registry.k8s.io\"") && conf.contains("insecure = true"), "{conf}");
    let hosts = text(MapForm::HostsToml);
    let server = format!("server = \"http://{}/v2/mirror/quay.io\"", registry.address);
    assert!(hosts.contains(&server) && hosts.contains("override_path = true"), "{hosts}");
    // containers-registries.conf(5) as skopeo reads it.
    let file = folder.path().join("registries.conf");
    std::fs::write(&file, conf).unwrap();
    let read = std::process::Command::new("skopeo")
        .args(["--insecure-policy", "--registries-conf"])
        .arg(&file)
        .args(["inspect", "--raw", "docker://quay.io/a/app:1"])
        .output()
        .unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    assert_eq!(Digest::of(&read.stdout), seeded.entries[0].digest);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_there_without_a_child_does_not_hide_that_it_is_missing() {
    let registry = Registry::start(Setup::default());
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&BOTH);
    let app = maker.image("quay.io/a/app:1", &[noise(1, 5000)], 0);
    let bundle = maker.bundle(folder.path());
    let options = options(folder.path(), &registry.address);
    run(&bundle, &options).await.unwrap();
    // As a registry that takes sparse indexes has it: the revision of one child is gone.
    let arm = app.manifests[&Platform::LINUX_ARM64].digest;
    let revisions = registry.blobs().join("../../repositories/mirror/quay.io/a/app/_manifests/revisions/sha256");
    std::fs::remove_dir_all(revisions.join(arm.hex())).unwrap();
    let seeded = run(&bundle, &options).await.unwrap();
    assert_eq!(seeded.totals.manifests, 1, "{seeded:#?}");
    registry.raw(&format!("mirror/quay.io/a/app@{arm}"));
}
