//! Container runtimes: one file for each, with the steps that install, configure and start it. The names of a runtime
//! and its paths on nodes are in [`kubexm_plan::runtime`].

pub mod as_found;
mod containerd;
mod cri_o;
mod docker;
mod extra_config;
mod isulad;
mod loaded;
mod of_cluster;
mod steps;
pub mod virtual_machines;

use std::collections::BTreeMap;

use kubexm_spec::cluster::RuntimeKind;
use kubexm_spec::{ArtifactKey, Platform, Program, Version, one_line};

pub use of_cluster::{cgroup_driver, imports, of, upstream_hosts};
pub use steps::RuntimeSteps;

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;

/// Refuses a version in the bundle whose configuration no recipe can write, or that an add-on cannot do with.
pub fn unknown_version(cx: &PlanContext<'_>) -> Option<RecipeError> {
    let of_bundle = cx.manifest.artifacts.iter().find_map(|artifact| match artifact.key {
        ArtifactKey::Binary(Program::Containerd) => containerd::check_version(&artifact.version).err(),
        // Harbor has one, too, whose engine is configured in another way.
        ArtifactKey::Binary(Program::Docker) if cx.cluster.runtime.kind == RuntimeKind::Docker => {
            docker::check_version(&artifact.version).err()
        }
        ArtifactKey::Binary(Program::CriO) => cri_o::check_version(&artifact.version).err(),
        _ => None,
    });
    isulad::too_old(cx).or(of_bundle).or_else(|| virtual_machines::refused(cx.cluster, without_drop_ins(cx)))
}

/// The runtime, where it reads no drop-ins beside its configuration, and what to use instead.
fn without_drop_ins(cx: &PlanContext<'_>) -> Option<(String, String)> {
    let kind = cx.cluster.runtime.kind;
    let found = match kind {
        RuntimeKind::CriO => None,
        RuntimeKind::Containerd => containerd::before_drop_ins(cx).map(|version| format!("{kind} {version}")),
        RuntimeKind::Docker | RuntimeKind::Isulad => Some(format!("spec.runtime.type {kind}")),
    };
    Some((found?, format!("use {} 2.2 or later, or {}", RuntimeKind::Containerd, RuntimeKind::CriO)))
}

/// What the configuration of a node's runtime sets, by key, if others may put drop-ins beside it.
pub fn settings(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Option<BTreeMap<String, String>> {
    match cx.cluster.runtime.kind {
        RuntimeKind::CriO => cri_o::settings(cx, node).ok(),
        _ => None,
    }
}

/// The nodes whose runtime, in this version, is of another line than the bundle's, where no upgrade goes from one to the other.
pub fn line_refused<'n>(
    cx: &PlanContext<'_>,
    platform: Platform,
    nodes: impl Iterator<Item = (&'n str, &'n str)>,
) -> Vec<String> {
    let kind = cx.cluster.runtime.kind;
    if kind == RuntimeKind::Isulad {
        let instead = "create a cluster of the new bundle on other hosts, and move to it";
        return vec![format!("spec.runtime.type: {kind} is known, and not supported yet with `upgrade` ({instead})")];
    }
    let (RuntimeKind::Docker, Some(bundled)) = (kind, version_for(cx, platform)) else { return Vec::new() };
    let line = |version: &str| Version::of(version.trim_start_matches('v')).line();
    let other = |(name, found): (&str, &str)| {
        (line(found) != line(bundled)).then(|| {
            let (found, line) = (one_line(found), line(found).map_or_else(|| "its line".to_owned(), |[major, minor]| format!("{major}.{minor}")));
            format!(
                "{name} has {kind} {found}, and the bundle has {bundled}: no upgrade goes from one line of it to another; name a version of {line} \
                 in spec.runtime.version, and build the bundle again"
            )
        })
    };
    nodes.filter_map(other).collect()
}

/// The version of the cluster's runtime in the bundle.
pub fn version<'a>(cx: &PlanContext<'a>, node: &PlannedHost<'_>) -> Option<&'a str> {
    version_for(cx, node.platform)
}

/// The same for a platform.
pub fn version_for<'a>(cx: &PlanContext<'a>, platform: Platform) -> Option<&'a str> {
    let program = match cx.cluster.runtime.kind {
        RuntimeKind::Containerd => Program::Containerd,
        RuntimeKind::CriO => Program::CriO,
        RuntimeKind::Docker => Program::Docker,
        // Its version is that of a package, which differs from system to system.
        RuntimeKind::Isulad => return None,
    };
    cx.program(program, platform).ok().map(|artifact| artifact.version.as_str())
}

/// The steps of the cluster's runtime.
pub fn steps(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<RuntimeSteps, RecipeError> {
    match draft.cx.cluster.runtime.kind {
        RuntimeKind::Containerd => containerd::steps(draft, node),
        RuntimeKind::CriO => cri_o::steps(draft, node),
        RuntimeKind::Docker => docker::steps(draft, node),
        RuntimeKind::Isulad => isulad::steps(draft, node),
    }
}
