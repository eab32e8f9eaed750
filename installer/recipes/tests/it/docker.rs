//! Nodes with docker: where their images come from, and what is refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use crate::common::Site;
use kubexm_plan::Plan;
use kubexm_plan::op::{ImageSource, Op};
use kubexm_recipes::sample;
use kubexm_spec::Kind;
use kubexm_spec::cluster::{Cluster, ExtraImage, RegistryKind, Runtime, RuntimeKind};

fn cluster(images: &[&str]) -> Cluster {
    let mut cluster = sample::fleet(1, 1);
    cluster.runtime = Runtime { kind: RuntimeKind::Docker, ..Runtime::default() };
    cluster.bundle.extra_images =
        images.iter().map(|name| ExtraImage { name: (*name).to_owned(), from: None }).collect();
    cluster
}

/// Host and name of every image that is loaded, all from the store; and how many blobs that takes at a host.
fn loaded(plan: &Plan, host: &str) -> Vec<String> {
    let of_host = plan.steps.iter().filter(|step| step.host == host).flat_map(|step| &step.ops);
    let mut names: Vec<String> = of_host
        .filter_map(|op| match op {
            Op::ImageLoaded(image) => {
                assert!(matches!(image.source, ImageSource::Store { .. }), "{} is not pulled", image.reference);
                assert_eq!(image.runtime, RuntimeKind::Docker);
                Some(image.reference.clone())
            }
            _ => None,
        })
        .collect();
    names.sort();
    names
}

#[test]
fn every_node_loads_every_image_from_its_store_whatever_the_registry() {
    for kind in [RegistryKind::Embedded, RegistryKind::None] {
        let mut cluster = cluster(&["docker.io/library/busybox:1"]);
        cluster.registry.kind = kind;
        let site = Site::of(cluster);
        let plan = site.create().unwrap();
        let mut all: Vec<&str> = site
            .manifest
            .artifacts
            .iter()
            .filter(|artifact| artifact.key.kind() == Kind::Image)
            .map(|artifact| artifact.name.as_str())
            .collect();
        all.sort_unstable();
        assert_eq!(loaded(&plan, "node1"), all, "{kind}");
        let of_worker = loaded(&plan, "node2");
        assert!(of_worker.contains(&"docker.io/library/busybox:1".to_owned()), "{of_worker:?}");
        assert!(!of_worker.iter().any(|name| name.contains("kube-apiserver")), "{of_worker:?}");
        let copied = |host: &str| {
            let mut ops = plan.steps.iter().filter(|step| step.host == host).flat_map(|step| &step.ops);
            ops.find_map(|op| if let Op::Blobs(blobs) = op { Some(blobs.blobs.clone()) } else { None }).unwrap()
        };
        let busybox = site.manifest.artifacts.iter().find(|artifact| artifact.name.contains("busybox")).unwrap();
        assert!(busybox.blobs.iter().all(|blob| copied("node2").contains_key(&blob.digest)), "{kind}");
    }
}

#[test]
fn an_image_that_is_named_by_a_digest_is_refused() {
    let digest = "0".repeat(64);
    let name = format!("quay.io/a/b@sha256:{digest}");
    let error = Site::of(cluster(&[&name])).create().unwrap_err().to_string();
    assert!(error.contains(&name) && error.contains("by tags only"), "{error}");
}
