//! Hosts of the cluster that are time servers for the others.

use std::net::IpAddr;

use kubexm_spec::cluster::{Cluster, Host};

/// Whether a value of `spec.system.ntpServers` refers to a host of the cluster: by its name, or by an address of it.
pub fn refers_to(configured: &str, host: &Host) -> bool {
    let address: Option<IpAddr> = configured.parse().ok();
    configured == host.name || configured == host.address || (address.is_some() && address == host.node_ip())
}

/// Whether other hosts synchronise their clocks with this one.
pub fn is_server(cluster: &Cluster, host: &Host) -> bool {
    cluster.system.ntp_servers.iter().any(|configured| refers_to(configured, host))
}
