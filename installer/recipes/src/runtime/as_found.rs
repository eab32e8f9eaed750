//! A runtime that others have installed, and that stays as it is: whether an upgrade can load images into it, and the new kubelet start with it.

use kubexm_plan::ClusterFacts;
use kubexm_spec::cluster::RuntimeKind;
use kubexm_spec::{Platform, Version, one_line};

use crate::context::PlanContext;
use crate::support;

/// The first containerd whose `ctr images import` has `--local`, with which images are loaded.
const FIRST_LOCAL_IMPORT: &str = "1.7.0";

/// The nodes on which it is too old for the bundle's Kubernetes, or is not known, as text for people.
pub fn too_old<'n>(
    cx: &PlanContext<'_>,
    platform: Platform,
    nodes: impl Iterator<Item = &'n str>,
    running: &ClusterFacts,
) -> Vec<String> {
    let kind = RuntimeKind::Containerd;
    if cx.cluster.runtime.kind != kind {
        return Vec::new();
    }
    // A bundle without kubeadm is refused as such.
    let Ok(kubernetes) = cx.kubernetes_version(platform) else { return Vec::new() };
    let Ok(needed) = support::of(cx.catalogue, &kubernetes) else {
        return vec![format!(
            "the bundle's catalogue does not say which containerd Kubernetes {kubernetes} works with"
        )];
    };
    let minimum = needed.minimum_containerd.as_str();
    let problem = |name: &str| {
        let found = running.nodes.iter().find(|one| one.name == name && one.runtime == kind.to_string());
        let found = found.map(|one| Version::of(&one.runtime_version)).filter(|found| found.line().is_some());
        let Some(found) = found else {
            return Some(format!(
                "{name}: the version of its containerd is not known, and Kubernetes {kubernetes} needs {minimum} or newer"
            ));
        };
        let shown = one_line(found.bare());
        if found < Version::of(minimum) {
            return Some(format!(
                "{name}: containerd is {shown}, and Kubernetes {kubernetes} needs {minimum} or newer: upgrade containerd first"
            ));
        }
        (found < Version::of(FIRST_LOCAL_IMPORT)).then(|| {
            format!(
                "{name}: containerd is {shown}, and images are loaded with `ctr images import --local`, which came with \
                 {FIRST_LOCAL_IMPORT}: upgrade containerd first"
            )
        })
    };
    nodes.filter_map(problem).collect()
}
