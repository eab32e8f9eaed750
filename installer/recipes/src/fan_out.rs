//! Hosts that serve the bundle's content to each other while a run lasts (`spec.registry.fanOut`, decision 0070).

use std::net::SocketAddr;

use kubexm_spec::cluster::{Cluster, ExternalKind, LoadBalancerMode, RegistryKind};
use kubexm_spec::names::FAN_OUT_PORT;

use crate::context::{PlanContext, PlannedHost};

/// Whether hosts take content from each other; one alone has nobody to take it from.
pub fn is_used(cluster: &Cluster) -> bool {
    cluster.registry.fan_out && cluster.hosts.len() > 1 && port_of(cluster).is_none()
}

/// What of the cluster has the port, as one from before this may: then hosts take nothing from each other.
pub fn port_of(cluster: &Cluster) -> Option<&'static str> {
    let mode = &cluster.load_balancer.mode;
    let elsewhere = matches!(mode, LoadBalancerMode::External { kind: ExternalKind::External, .. });
    let registry = match cluster.registry.kind {
        RegistryKind::Embedded | RegistryKind::Registry | RegistryKind::Harbor => Some(cluster.registry.port),
        RegistryKind::External | RegistryKind::None => None,
    };
    if registry == Some(FAN_OUT_PORT) {
        return Some("spec.registry.port");
    }
    (!elsewhere && mode.port() == FAN_OUT_PORT).then_some("spec.loadBalancer.port")
}

/// Where a host serves what it has, for the other hosts of the run.
pub fn address(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Option<SocketAddr> {
    is_used(cx.cluster).then(|| SocketAddr::from((node.ip, FAN_OUT_PORT)))
}
