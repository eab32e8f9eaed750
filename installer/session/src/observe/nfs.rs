//! The NFS server of `spec.storage.nfs`: every node mounts volumes from it.

use std::net::SocketAddr;

use kubexm_recipes::mesh::{NFS_PORT, NFS_SERVER};
use kubexm_recipes::preflight::{Severity, mesh};
use kubexm_recipes::{Finding, Mesh};
use kubexm_spec::Cluster;

use super::outside;

/// Adds it to what each node dials. Returns a finding if this machine does not know its name.
pub(super) async fn add_dials(dials: &mut Mesh, cluster: &Cluster) -> Option<Finding> {
    let server = &cluster.storage.nfs.as_ref()?.server;
    match outside::address(server, NFS_PORT).await {
        Some(address) => {
            outside::add_dials(dials, cluster, NFS_SERVER, SocketAddr::new(address, NFS_PORT));
            None
        }
        None => Some(Finding {
            severity: Severity::Warn,
            check: mesh::NAME.to_owned(),
            host: None,
            found: format!("{server}, the server of `spec.storage.nfs`, is a name that this machine does not know"),
            needed: "a name with an address, so that connections of the nodes to it can be tried".to_owned(),
            fix: "correct it, or give its address; nodes may know it where this machine does not, and then nothing has to be done"
                .to_owned(),
            detail: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use kubexm_spec::cluster::{self, Nfs};

    use super::*;

    fn cluster(server: &str) -> Cluster {
        let hosts = "  hosts: [{name: node1, address: 10.0.0.11}, {name: node2, address: 10.0.0.12}, {name: store, address: 10.0.0.13}]\n";
        let roles = "  roleGroups: {master: [node1], worker: [node2], registry: [store]}\n";
        let head = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n";
        let mut cluster =
            cluster::parse(&format!("{head}{hosts}{roles}")).unwrap_or_else(|problems| panic!("{problems}"));
        let (server, path) = (server.to_owned(), "/srv".to_owned());
        cluster.storage.nfs = Some(Nfs { server, path, mount_options: Vec::new(), default_class: false });
        cluster
    }

    #[tokio::test]
    async fn every_node_dials_the_server_and_no_other_host_does() {
        let mut mesh = Mesh::default();
        assert_eq!(add_dials(&mut mesh, &cluster("10.0.0.9")).await, None);
        let dialing: Vec<&str> = mesh.dials.keys().map(String::as_str).collect();
        assert_eq!(dialing, ["node1", "node2"]);
        let dial = &mesh.dials["node2"][0];
        assert_eq!((dial.to.as_str(), dial.address.to_string().as_str()), (NFS_SERVER, "10.0.0.9"));
        assert_eq!(dial.port.to_string(), "2049/tcp");
    }

    #[tokio::test]
    async fn a_name_that_nobody_has_is_told_and_refuses_nothing() {
        let mut mesh = Mesh::default();
        // RFC 6761: no name below `invalid` exists.
        let finding = add_dials(&mut mesh, &cluster("nas.invalid")).await.expect("a finding");
        assert_eq!(finding.severity, Severity::Warn);
        assert!(finding.found.contains("nas.invalid"), "{finding}");
        assert!(mesh.dials.is_empty());
    }
}
