//! Container runtimes: one file for each, with the steps that install, configure and start it. What a runtime is called and
//! leaves on nodes is [`kubexm_plan::runtime`].

pub mod containerd;
mod cri_o;

use std::collections::BTreeSet;

use kubexm_plan::Step;
use kubexm_plan::runtime::{self, RuntimeTraits};
use kubexm_spec::Kind;
use kubexm_spec::cluster::{Cluster, RuntimeKind};
use serde_json::Value;

use crate::context::{Node, PlanCx};
use crate::draft::Draft;
use crate::error::RecipeError;

/// The runtime of a cluster, as nodes show it.
pub const fn of(cluster: &Cluster) -> &'static RuntimeTraits {
    runtime::of(cluster.runtime.kind)
}

/// Programs, where images come from, and the running service.
pub fn steps(draft: &mut Draft<'_>, node: &Node<'_>) -> Result<Vec<Step>, RecipeError> {
    match draft.cx.cluster.runtime.kind {
        RuntimeKind::Containerd => containerd::steps(draft, node),
        RuntimeKind::CriO => cri_o::steps(draft, node),
        kind @ (RuntimeKind::Docker | RuntimeKind::Isulad) => Err(RecipeError::NotBuiltYet {
            what: format!("spec.runtime.type {kind}"),
            hint: "name containerd, and build the bundle again".to_owned(),
        }),
    }
}

/// The hosts that the bundle's images come from upstream.
pub fn upstream_hosts(cx: &PlanCx<'_>) -> BTreeSet<String> {
    let images = cx.manifest.artifacts.iter().filter(|a| a.key.kind() == Kind::Image);
    images.filter_map(|a| a.name.split_once('/')).map(|(host, _)| host.to_owned()).collect()
}

/// kubelet's and the runtime's driver must be the same; the user's own KubeletConfiguration decides.
pub fn cgroup_driver<'a>(cx: &PlanCx<'a>) -> Result<&'a str, RecipeError> {
    Ok(cx.kubernetes()?.kubelet.get("cgroupDriver").and_then(Value::as_str).unwrap_or("systemd"))
}
