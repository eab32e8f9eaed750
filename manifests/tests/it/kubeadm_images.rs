//! The referee: the image set of each release must be what the real `kubeadm config images list` prints.
//!
//! The programs are looked for under `$KUBEXM_LAB/k8s/<version>/kubeadm` (default `~/.cache/kubexm-lab`); `scripts/lab build`
//! makes them. What others have printed, which take too long to build each time, is kept in `fixtures/`.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use std::path::PathBuf;
use std::process::Command;

use kubexm_manifests::{Catalogue, Feature, references, require};
use kubexm_spec::cluster::{NodeLocalDns, for_version};

pub(super) fn lab() -> PathBuf {
    if let Some(lab) = std::env::var_os("KUBEXM_LAB") {
        return PathBuf::from(lab);
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    cache.unwrap_or_else(home).join("kubexm-lab")
}

fn kubeadms() -> Vec<(String, PathBuf)> {
    let mut found: Vec<(String, PathBuf)> = std::fs::read_dir(lab().join("k8s"))
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path().join("kubeadm")))
        .filter(|(version, program)| version.starts_with(|c: char| c.is_ascii_digit()) && program.is_file())
        .collect();
    found.sort();
    found
}

#[test]
fn the_image_set_is_what_the_real_kubeadm_asks_for() {
    let found = kubeadms();
    assert!(
        found.len() >= 2,
        "at least two kubeadm programs are wanted under {}/k8s/<version>/, {} found: run `scripts/lab build`",
        lab().display(),
        found.len()
    );
    let catalogue = Catalogue::embedded();
    for (version, program) in found {
        let output = Command::new(&program)
            .args(["config", "images", "list", "--kubernetes-version", &format!("v{version}")])
            .env("HOME", "/nonexistent")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
        held(&catalogue, &version, &String::from_utf8(output.stdout).unwrap());
    }
}

/// The catalogue's images of a version against what its kubeadm has printed. The one that differs on purpose is an etcd: kubeadm
/// runs whatever `etcd.local.imageTag` of its configuration says, and its own constant is older than what the next minor's etcd
/// takes members from (`etcdBeforeNext` of a release).
fn held(catalogue: &Catalogue, version: &str, printed: &str) {
    let release = catalogue.release(version).unwrap();
    let own = release.constants(version.rsplit('.').next().unwrap().parse().unwrap()).unwrap();
    let of_etcd = |tag: &str| format!("registry.k8s.io/etcd:{tag}");
    assert!(printed.lines().any(|image| image == of_etcd(&own.etcd)), "Kubernetes {version}: {printed}");
    let printed = printed.replace(&of_etcd(&own.etcd), &of_etcd(release.etcd(own)));
    let mut asked: Vec<&str> = printed.lines().collect();
    asked.sort_unstable();
    let versions = require(&for_version(Some(version)), catalogue).unwrap().versions.unwrap();
    assert_eq!(references(catalogue, &versions, Feature::Kubeadm), asked, "Kubernetes {version}");
}

#[test]
fn the_image_sets_are_what_kubeadms_of_other_minors_have_printed() {
    let catalogue = Catalogue::embedded();
    for (version, printed) in [
        ("1.33.13", include_str!("../fixtures/kubeadm-images-1.33.13.txt")),
        ("1.34.0", include_str!("../fixtures/kubeadm-images-1.34.0.txt")),
        ("1.34.4", include_str!("../fixtures/kubeadm-images-1.34.4.txt")),
        ("1.35.4", include_str!("../fixtures/kubeadm-images-1.35.4.txt")),
        ("1.36.3", include_str!("../fixtures/kubeadm-images-1.36.3.txt")),
    ] {
        held(&catalogue, version, printed);
    }
}

#[test]
fn constants_are_those_of_kubernetes_own_source() {
    let catalogue = Catalogue::embedded();
    let rows = include_str!("../fixtures/kubeadm-constants.txt").lines().filter(|line| !line.starts_with('#'));
    let mut minors = std::collections::BTreeSet::new();
    for row in rows {
        let [version, pause, coredns, etcd, cache] = row.split(' ').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let release = catalogue.release(version).unwrap();
        let found = release.constants(version.rsplit('.').next().unwrap().parse().unwrap()).unwrap();
        assert_eq!([found.pause.as_str(), &found.coredns, &found.etcd], [pause, coredns, etcd], "Kubernetes {version}");
        assert!(found.verified.is_some() && found.unverified.is_none(), "Kubernetes {version} was read");
        let mut cluster = for_version(Some(version));
        cluster.kubernetes.as_mut().unwrap().nodelocaldns = Some(NodeLocalDns::default());
        let versions = require(&cluster, &catalogue).unwrap().versions.unwrap();
        assert_eq!(versions.features["nodelocaldns"], cache, "Kubernetes {version}");
        minors.insert(release.minor.clone());
    }
    assert!(minors.iter().eq(catalogue.releases.keys()), "{minors:?}");
}
