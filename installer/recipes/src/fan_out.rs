//! Hosts that serve the bundle's content to each other while a run lasts (`spec.registry.fanOut`, decision 0070).

use std::net::SocketAddr;

use kubexm_spec::cluster::Cluster;
use kubexm_spec::names::FAN_OUT_PORT;

use crate::context::{PlanContext, PlannedHost};

/// Whether hosts take content from each other; one alone has nobody to take it from.
pub fn is_used(cluster: &Cluster) -> bool {
    cluster.registry.fan_out && cluster.hosts.len() > 1
}

/// Where a host serves what it has, for the other hosts of the run.
pub fn address(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Option<SocketAddr> {
    is_used(cx.cluster).then(|| SocketAddr::from((node.ip, FAN_OUT_PORT)))
}
