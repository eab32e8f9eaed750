//! What every runtime's recipe asks of a cluster.

use std::collections::BTreeSet;

use kubexm_plan::runtime::{self, RuntimeTraits};
use kubexm_spec::Kind;
use kubexm_spec::cluster::Cluster;
use serde_json::Value;

use crate::context::PlanCx;
use crate::error::RecipeError;

/// The runtime of a cluster, as nodes show it.
pub const fn of(cluster: &Cluster) -> &'static RuntimeTraits {
    runtime::of(cluster.runtime.kind)
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
