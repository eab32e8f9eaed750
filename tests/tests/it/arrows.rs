//! Who may know whom (ARCHITECTURE.md, "Folders and arrows"): read from the manifests, so that a new arrow is a
//! decision and not an accident.

#![allow(clippy::unwrap_used, reason = "a test: what cannot be read fails it")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Every crate and the crates of ours it may name. An arrow that is not here fails the build.
const ALLOWED: &[(&str, &[&str])] = &[
    ("kubexm-spec", &[]),
    ("kubexm-files", &["kubexm-spec"]),
    ("kubexm-archive", &["kubexm-spec", "kubexm-files"]),
    ("kubexm-fuzz", &["kubexm-spec", "kubexm-archive", "kubexm-signing", "kubexm-packages", "kubexm-builder"]),
    ("kubexm-signing", &["kubexm-spec", "kubexm-files", "kubexm-archive"]),
    ("kubexm-transport", &["kubexm-spec", "kubexm-archive"]),
    ("kubexm-terminal", &["kubexm-spec"]),
    ("kubexm-packages", &["kubexm-spec"]),
    ("kubexm-manifests", &["kubexm-spec"]),
    (
        "kubexm-builder",
        &[
            "kubexm-spec",
            "kubexm-files",
            "kubexm-archive",
            "kubexm-signing",
            "kubexm-transport",
            "kubexm-packages",
            "kubexm-manifests",
        ],
    ),
    (
        "kubexm-bundle",
        &[
            "kubexm-spec",
            "kubexm-files",
            "kubexm-archive",
            "kubexm-signing",
            "kubexm-transport",
            "kubexm-packages",
            "kubexm-manifests",
            "kubexm-terminal",
            "kubexm-builder",
        ],
    ),
    ("kubexm-plan", &["kubexm-spec"]),
    ("kubexm-recipes", &["kubexm-spec", "kubexm-manifests", "kubexm-packages", "kubexm-plan"]),
    ("kubexm-ops", &["kubexm-spec", "kubexm-packages", "kubexm-plan"]),
    ("kubexm-engine", &["kubexm-spec", "kubexm-plan", "kubexm-ops", "kubexm-transport"]),
    ("kubexm-depot", &["kubexm-spec"]),
    (
        "kubexm-install",
        &[
            "kubexm-spec",
            "kubexm-files",
            "kubexm-archive",
            "kubexm-signing",
            "kubexm-terminal",
            "kubexm-manifests",
            "kubexm-packages",
            "kubexm-plan",
            "kubexm-recipes",
            "kubexm-ops",
            "kubexm-engine",
            "kubexm-depot",
        ],
    ),
];

/// Crates that do IO, and so may not appear below recipes, plan, manifests or spec, at any depth.
const IO_CRATES: &[&str] = &["tokio", "reqwest", "russh", "rustix", "tempfile", "time", "rand", "getrandom", "fs4"];

#[derive(serde::Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(serde::Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(serde::Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

fn workspace() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).unwrap();
    metadata
        .packages
        .into_iter()
        .map(|p| (p.name, p.dependencies.into_iter().filter(|d| d.kind.is_none()).map(|d| d.name).collect()))
        .collect()
}

#[test]
fn no_crate_knows_more_than_the_architecture_says() {
    let mut crates = workspace();
    crates.remove("kubexm-tests");
    let known: BTreeMap<_, BTreeSet<_>> =
        ALLOWED.iter().map(|(name, to)| (*name, to.iter().copied().collect())).collect();
    assert_eq!(
        crates.keys().map(String::as_str).collect::<Vec<_>>(),
        known.keys().copied().collect::<Vec<_>>(),
        "a crate was added or removed: say here whom it may know"
    );
    for (name, dependencies) in &crates {
        let ours: BTreeSet<&str> =
            dependencies.iter().map(String::as_str).filter(|d| d.starts_with("kubexm-")).collect();
        let extra: Vec<_> = ours.difference(&known[name.as_str()]).collect();
        assert!(extra.is_empty(), "{name} must not know {extra:?}");
    }
}

#[test]
fn recipes_cannot_reach_a_host() {
    let crates = workspace();
    for name in ["kubexm-spec", "kubexm-manifests", "kubexm-plan", "kubexm-recipes"] {
        let io: Vec<_> = IO_CRATES.iter().filter(|c| crates[name].contains(**c)).collect();
        assert!(io.is_empty(), "{name} is pure and must not depend on {io:?}");
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../installer/recipes/src");
    let mut folders = vec![source];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).unwrap();
            // A key of packages is made of the clock and of entropy.
            let banned =
                ["std::fs", "std::net::Tcp", "std::process", "std::env", "SystemTime", "Instant::now", "SiteKey"];
            for banned in banned {
                assert!(!text.contains(banned), "{} uses {banned}", entry.path().display());
            }
        }
    }
}
