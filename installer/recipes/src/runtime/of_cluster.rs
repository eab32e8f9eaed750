//! Values of a cluster that every runtime's recipe needs.

use std::collections::BTreeSet;

use kubexm_plan::runtime::{self, RuntimeTraits};
use kubexm_spec::Kind;
use kubexm_spec::cluster::{Cluster, RegistryKind, RuntimeKind};
use serde_json::Value;

use crate::context::PlanContext;
use crate::error::RecipeError;

/// The runtime of a cluster, as seen on nodes.
pub const fn of(cluster: &Cluster) -> &'static RuntimeTraits {
    runtime::of(cluster.runtime.kind)
}

/// Whether every node imports all its images from its own content store: there is no registry, or the runtime can be pointed at none.
pub fn imports(cluster: &Cluster) -> bool {
    let points_at_none = matches!(cluster.runtime.kind, RuntimeKind::Docker | RuntimeKind::Isulad);
    cluster.registry.kind == RegistryKind::None || points_at_none
}

/// The upstream registry hosts of the bundle's images.
pub fn upstream_hosts(cx: &PlanContext<'_>) -> BTreeSet<String> {
    let images = cx.manifest.artifacts.iter().filter(|a| a.key.kind() == Kind::Image);
    images.filter_map(|a| a.name.split_once('/')).map(|(host, _)| host.to_owned()).collect()
}

/// cgroup driver: kubelet's and the runtime's must be the same; the user's KubeletConfiguration decides.
pub fn cgroup_driver<'a>(cx: &PlanContext<'a>) -> Result<&'a str, RecipeError> {
    Ok(cx.kubernetes()?.kubelet.get("cgroupDriver").and_then(Value::as_str).unwrap_or("systemd"))
}
