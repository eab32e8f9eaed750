//! The referee: the image set of each release must be what the real `kubeadm config images list` prints.
//!
//! The programs are looked for under `$KUBEXM_LAB/k8s/<version>/kubeadm` (default `~/.cache/kubexm-lab`); `scripts/lab build`
//! makes them.

use std::path::PathBuf;
use std::process::Command;

use kubexm_manifests::{Catalogue, Feature, references, require};
use kubexm_spec::cluster::for_version;

fn lab() -> PathBuf {
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
        let mut asked: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        asked.sort();
        let versions = require(&for_version(Some(&version)), &catalogue).unwrap().versions.unwrap();
        assert_eq!(references(&catalogue, &versions, Feature::Kubeadm), asked, "Kubernetes {version}");
    }
}
