//! Nodes with isulad: where it and their images come from, and what is refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use crate::common::{Site, text};
use kubexm_plan::Facts;
use kubexm_plan::facts::InstalledPackages;
use kubexm_plan::op::{ImageSource, Op};
use kubexm_recipes::sample;
use kubexm_spec::cluster::{Cluster, ExtraImage, RegistryKind, Runtime, RuntimeKind};
use kubexm_spec::{ArtifactKey, Family, Kind};
use serde_json::json;

fn cluster(images: &[&str]) -> Cluster {
    let mut cluster = sample::fleet(1, 1);
    cluster.runtime = Runtime { kind: RuntimeKind::Isulad, ..Runtime::default() };
    cluster.bundle.os = vec!["openeuler-24.03-sp1".to_owned()];
    cluster.bundle.extra_images =
        images.iter().map(|name| ExtraImage { name: (*name).to_owned(), from: None }).collect();
    cluster
}

/// A cluster of one node.
pub fn alone() -> Cluster {
    let mut cluster = sample::cluster();
    cluster.runtime = Runtime { kind: RuntimeKind::Isulad, ..Runtime::default() };
    cluster.bundle.os = vec!["openeuler-24.03-sp1".to_owned()];
    cluster
}

/// A host of openEuler 24.03 that has what every node needs, and no isulad.
pub fn host(facts: &mut Facts) {
    (facts.os_id, facts.os_version, facts.os_edition) =
        ("openEuler".to_owned(), "24.03".to_owned(), "24.03 (LTS-SP1)".to_owned());
    let entry = |name: &str| format!("N\t{name}\t0\t1.0\t1\tx86_64\nP\t{name}\t8\t1.0-1\n");
    let list = ["bash-completion", "ebtables", "glibc"].map(entry).concat();
    facts.packages = Some(InstalledPackages { family: Family::Rpm, list, broken: None });
    // As facts are collected: looked for, and not found.
    facts.programs.extend(["isulad", "isula", "isulad-shim"].map(|name| (name.to_owned(), None)));
}

fn site(cluster: Cluster) -> Site {
    let mut site = Site::of(cluster);
    site.facts.values_mut().for_each(host);
    site
}

#[test]
fn every_node_gets_isulad_with_its_systems_packages_and_every_image_from_its_store() {
    for kind in [RegistryKind::Embedded, RegistryKind::None] {
        let mut cluster = cluster(&["docker.io/library/busybox:1"]);
        cluster.registry.kind = kind;
        let site = site(cluster);
        let plan = site.checked();
        for node in ["node1", "node2"] {
            let of_node = || plan.steps.iter().filter(|step| step.host == node);
            let place = |wanted: &str| of_node().position(|step| step.id.0.ends_with(wanted)).unwrap();
            let installs = of_node().flat_map(|step| &step.ops).any(|op| match op {
                Op::Packages(packages) => packages.packages.contains_key("iSulad"),
                _ => false,
            });
            assert!(installs && place("/packages.install") < place("/runtime.run"), "{node}, {kind}");
            let mut loaded: Vec<&str> = Vec::new();
            for op in of_node().flat_map(|step| &step.ops) {
                if let Op::ImageLoaded(image) = op {
                    assert!(matches!(image.source, ImageSource::Store { .. }), "{} is not pulled", image.reference);
                    assert_eq!(image.runtime, RuntimeKind::Isulad);
                    loaded.push(&image.reference);
                }
            }
            assert!(loaded.contains(&"docker.io/library/busybox:1"), "{node}, {kind}: {loaded:?}");
            let all = site.manifest.artifacts.iter().filter(|artifact| artifact.key.kind() == Kind::Image).count();
            assert!(node != "node1" || loaded.len() == all, "{kind}: {loaded:?}");
        }
    }
}

#[test]
fn the_driver_of_control_groups_is_kubelets() {
    let key = |driver: Option<&str>| {
        let mut cluster = cluster(&[]);
        let kubelet = &mut cluster.kubernetes.as_mut().unwrap().kubelet;
        kubelet.extend(driver.map(|driver| ("cgroupDriver".to_owned(), json!(driver))));
        let plan = site(cluster).checked();
        let config: serde_json::Value = serde_json::from_str(text(&plan, "/etc/isulad/daemon.json")).unwrap();
        config.get("systemd-cgroup").cloned()
    };
    assert_eq!(key(None), Some(json!(true)));
    assert_eq!(key(Some("cgroupfs")), None, "older releases do not know it");
}

#[test]
fn a_bundle_with_an_isulad_that_is_too_old_is_refused_before_any_host_is_touched() {
    let refused = |version: &str, driver: &str| {
        let mut cluster = cluster(&[]);
        cluster.kubernetes.as_mut().unwrap().kubelet.insert("cgroupDriver".to_owned(), json!(driver));
        let mut site = site(cluster);
        for artifact in &mut site.manifest.artifacts {
            if matches!(&artifact.key, ArtifactKey::Package { name, .. } if name == "iSulad") {
                artifact.version = version.to_owned();
            }
        }
        site.create().map(drop).map_err(|error| error.to_string())
    };
    let text = refused("2.0.18-16.oe2203", "cgroupfs").unwrap_err();
    for wanted in ["spec.runtime.type isulad", "iSulad 2.0.18-16.oe2203 of openeuler-24.03-sp1", "spec.bundle.os"] {
        assert!(text.contains(wanted), "{text}");
    }
    let text = refused("2.1.5-4.oe2403", "systemd").unwrap_err();
    assert!(text.contains("cgroupDriver: cgroupfs") && text.contains("2.1.6"), "{text}");
    assert_eq!(refused("2.1.5-4.oe2403", "cgroupfs"), Ok(()));
}

#[test]
fn a_host_of_another_system_is_refused_with_what_it_lacks() {
    let mut site = site(cluster(&[]));
    let facts = site.facts.get_mut("node2").unwrap();
    *facts = Facts { programs: facts.programs.clone(), ..sample::facts("node2", 12) };
    let text = site.create().unwrap_err().to_string();
    for wanted in ["node2", "isulad", "openeuler-24.03-sp1", "debian-12"] {
        assert!(text.contains(wanted), "{text}");
    }
}

#[test]
fn an_image_that_is_named_by_a_digest_is_refused() {
    let name = format!("quay.io/a/b@sha256:{}", "0".repeat(64));
    let error = site(cluster(&[&name])).create().unwrap_err().to_string();
    assert!(error.contains(&name) && error.contains("by tags only"), "{error}");
}
