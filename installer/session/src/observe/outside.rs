//! Servers outside of the cluster that every node must reach.

use std::net::{IpAddr, SocketAddr};

use kubexm_plan::mesh::{ConnectionCheck, Port, Protocol};
use kubexm_recipes::Mesh;
use kubexm_spec::Cluster;

/// The address of a server. A name is resolved here: how a host resolves it shows when it is used.
pub(super) async fn address(host: &str, port: u16) -> Option<IpAddr> {
    match host.parse() {
        Ok(address) => Some(address),
        Err(_) => tokio::net::lookup_host((host, port)).await.ok().and_then(|mut all| all.next()).map(|one| one.ip()),
    }
}

/// Adds a server to what each node dials.
pub(super) fn add_dials(mesh: &mut Mesh, cluster: &Cluster, to: &str, server: SocketAddr) {
    for host in cluster.hosts.iter().filter(|host| cluster.roles(&host.name).in_cluster()) {
        let port = Port { protocol: Protocol::Tcp, number: server.port() };
        let dial =
            ConnectionCheck { to: to.to_owned(), address: server.ip(), port, pod: None, authority: None, router: None };
        mesh.dials.entry(host.name.clone()).or_default().push(dial);
    }
}
