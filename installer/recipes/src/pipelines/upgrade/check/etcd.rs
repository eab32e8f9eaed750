//! etcd's members, and its own gate: upstream's upgrade guide of 3.6 asks for 3.5.26 or newer on every member before the
//! first one gets 3.6, since members that were removed under earlier patches come back otherwise.

use kubexm_spec::{ClusterImage, Version, depot};

use super::case::{Case, Lines};

/// The minor version with the gate.
const GATED: [u64; 2] = [3, 6];
/// What every member runs at least before it.
const GATE: [u64; 3] = [3, 5, 26];

pub(super) fn members(case: &Case<'_>, problems: &mut Lines, _: &mut Lines) {
    if !case.upgrades_a_control_plane() {
        return;
    }
    for member in case.running.etcd.iter().filter(|member| !member.healthy || member.learner) {
        let name = if member.name.is_empty() { &member.id } else { &member.name };
        let what = if member.healthy { "is a learner, which does not vote" } else { "is not healthy" };
        problems.push(format!(
            "etcd's member {name} {what}: an upgrade stops one member after another, and the others must keep a quorum; mend \
             it, or delete its host with `kubexm-install delete-node`"
        ));
    }
    let planes = case.cx.cluster.role_groups.control_plane.len();
    if case.running.etcd.len() < planes {
        problems.push(format!(
            "etcd has {} members, and there are {planes} control planes: an upgrade stops one member after another, and needs all \
             of them; `kubexm-install status` shows which is missing",
            case.running.etcd.len()
        ));
    }
    let bundled = case.cx.image(ClusterImage::Etcd, case.site.first.platform);
    let Some(tag) = bundled.ok().and_then(|image| depot::split_reference(&image.name).1) else { return };
    newer_than_the_bundle(case, tag, problems);
    if Version::of(tag).line().is_none_or(|bundled| bundled < GATED) {
        return;
    }
    let passes = |version: &str| {
        let version = Version::of(version);
        version.line().is_some_and(|found| found >= GATED) || version.release().is_some_and(|found| found >= GATE)
    };
    let versions = case.running.etcd.iter().filter_map(|member| Some((&member.name, member.version.as_deref()?)));
    let older: Vec<String> = versions
        .filter(|(_, version)| !passes(version))
        .map(|(name, version)| format!("member {name} runs {version}"))
        .collect();
    if !older.is_empty() {
        let [major, minor, patch] = GATE;
        problems.push(format!(
            "etcd's {}, and the bundle has etcd {tag}: before 3.6 every member must run {major}.{minor}.{patch} or newer, since \
             members that were removed earlier come back otherwise. This kubexm-bundle builds bundles of v1.{} with such an \
             etcd: build one of {found} from the cluster's cluster.yaml, run `kubexm-install upgrade --bundle` with it, which \
             leaves Kubernetes at its version (`spec.runtime.version` keeps the runtime at its own, too), then upgrade again",
            older.join(", "),
            case.found.oldest.minor(),
            found = case.found.oldest
        ));
    }
}

/// kubeadm leaves an etcd alone that is newer than the one it is given, and says that all went well.
fn newer_than_the_bundle(case: &Case<'_>, tag: &str, problems: &mut Lines) {
    for member in &case.running.etcd {
        let Some(version) = member.version.as_deref() else { continue };
        if Version::of(version).release() > Version::of(tag).release() {
            problems.push(format!(
                "etcd's member {} runs {version}, which is newer than the bundle's etcd {tag}, and kubeadm never makes etcd older: \
                 build the bundle with an image of etcd of {version} or newer (an overlay of the catalogue, `--catalogue`)",
                member.name
            ));
        }
    }
}
