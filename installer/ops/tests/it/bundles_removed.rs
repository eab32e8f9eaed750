//! What goes with an earlier bundle, and what stays.
#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::collections::BTreeMap;

use kubexm_ops::dispatch;
use kubexm_plan::op::{BundlesRemoved, Op, RegistryLayout};
use kubexm_spec::Digest;
use kubexm_spec::depot::{self, DepotConfig, Repository, Tls};

use crate::common::Host;

const FOLDER: &str = "/etc/kubexm/depot/bundles";
const SERVING: &str = "/etc/kubexm/depot/config.json";

fn put(host: &Host, bytes: &str) -> Digest {
    let digest = Digest::of(bytes);
    host.put(&blob(&digest), bytes);
    digest
}

fn blob(digest: &Digest) -> String {
    format!("/var/lib/kubexm/store/blobs/sha256/{}", digest.hex())
}

fn config(bundle: &str, images: BTreeMap<String, Repository>, files: &[(&str, Digest)]) -> DepotConfig {
    DepotConfig {
        schema: depot::SCHEMA.to_owned(),
        bundle: Some(bundle.to_owned()),
        listen: ([0, 0, 0, 0], 5443).into(),
        store: "/var/lib/kubexm/store".to_owned(),
        tls: Tls { cert: "/c".to_owned(), key: "/k".to_owned() },
        login: None,
        images,
        files: files.iter().map(|(name, digest)| ((*name).to_owned(), *digest)).collect(),
        packages: None,
    }
}

fn image(tag: &str, manifest: Digest, layers: &[Digest]) -> Repository {
    Repository {
        tags: [(tag.to_owned(), manifest)].into(),
        manifests: [manifest].into(),
        blobs: layers.iter().copied().collect(),
    }
}

/// A host that has had two bundles with a registry, which has an image of somebody else's too; the second is served.
fn two_bundles(host: &Host) -> [Digest; 5] {
    let all =
        ["old manifest", "new manifest", "old layer", "shared layer", "old kubelet"].map(|bytes| put(host, bytes));
    let [old, new, layer, shared, kubelet] = all;
    let name = "registry.k8s.io/pause".to_owned();
    let gone = "quay.io/gone".to_owned();
    let first = [(name.clone(), image("3.9", old, &[layer, shared])), (gone, image("1", old, &[layer]))];
    let second = [(name, image("3.10", new, &[shared]))];
    for images in [&first[..], &second[..]] {
        let layout =
            RegistryLayout { data_dir: "/mnt/registry".to_owned(), repositories: images.iter().cloned().collect() };
        dispatch::converge(&layout.into(), &host.machine).expect("images in the registry");
    }
    host.put("/mnt/registry/docker/registry/v2/repositories/quay.io/theirs/_layers/keep", "theirs");
    let text = |config: &DepotConfig| serde_json::to_string(config).expect("JSON");
    let first = config("first", first.into(), &[("kubelet", kubelet)]);
    let second = text(&config("second", second.into(), &[]));
    host.put(&format!("{FOLDER}/first.json"), text(&first));
    host.put(&format!("{FOLDER}/second.json"), &second);
    host.put(SERVING, &second);
    all
}

fn removed(bundles: &[&str]) -> Op {
    BundlesRemoved {
        folder: FOLDER.to_owned(),
        serving: SERVING.to_owned(),
        bundles: bundles.iter().map(|name| (*name).to_owned()).collect(),
        data_dir: Some("/mnt/registry".to_owned()),
    }
    .into()
}

#[test]
fn what_no_other_bundle_has_goes_and_the_rest_stays() {
    let host = Host::fresh();
    let [old, new, layer, shared, kubelet] = two_bundles(&host);
    let op = removed(&["first", "never-there"]);
    assert!(!dispatch::observe(&op, &host.machine).expect("a look").satisfied);
    dispatch::converge(&op, &host.machine).expect("removed");
    assert!(dispatch::observe(&op, &host.machine).expect("a look").satisfied);
    let is = |path: String| host.machine.path(&path).exists();
    assert_eq!([old, layer, kubelet].map(|digest| is(blob(&digest))), [false; 3]);
    assert_eq!([new, shared].map(|digest| is(blob(&digest))), [true; 2]);
    let root = "/mnt/registry/docker/registry/v2";
    for (path, there) in [
        ("repositories/registry.k8s.io/pause/_manifests/tags/3.9", false),
        ("repositories/registry.k8s.io/pause/_manifests/tags/3.10/current/link", true),
        ("repositories/quay.io/gone", false),
        ("repositories/quay.io/theirs/_layers/keep", true),
    ] {
        assert_eq!(is(format!("{root}/{path}")), there, "{path}");
    }
    let data = |digest: &Digest| format!("{root}/blobs/sha256/{}/{}/data", &digest.hex()[..2], digest.hex());
    assert_eq!([old, layer, new, shared].map(|digest| is(data(&digest))), [false, false, true, true]);
    dispatch::converge(&op, &host.machine).expect("nothing more");
}

#[test]
fn what_is_served_stays_and_a_record_that_cannot_be_read_stops_it_before_anything_goes() {
    let host = Host::fresh();
    let [old, ..] = two_bundles(&host);
    let refused = |names: &[&str]| dispatch::converge(&removed(names), &host.machine).expect_err("refused").full();
    assert!(refused(&["first", "second"]).contains("bundle second is what the depot serves now"));
    host.put(&format!("{FOLDER}/third.json"), "{");
    assert!(refused(&["first"]).contains("third.json cannot be read"));
    assert!(host.machine.path(&blob(&old)).exists());
    assert!(host.machine.path(&format!("{FOLDER}/first.json")).exists());
}

/// A record goes last, so that an interrupted removal goes on.
#[test]
fn an_interrupted_removal_goes_on() {
    let host = Host::fresh();
    let [old, _, layer, ..] = two_bundles(&host);
    std::fs::remove_file(host.machine.path(&blob(&old))).expect("removed before");
    dispatch::converge(&removed(&["first"]), &host.machine).expect("removed");
    assert!(!host.machine.path(&blob(&layer)).exists());
}
