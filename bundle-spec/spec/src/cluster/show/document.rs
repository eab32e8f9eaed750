//! A cluster as the document it could have been read from, every default written out.

use serde_json::{Map, Value, json};

use crate::cluster::addon::{Addons, NamedOnce};
use crate::cluster::field::put;
use crate::cluster::{
    Bundle, Cluster, Etcd, Extra, Host, Kubernetes, LoadBalancer, Network, Operator, Registry, RoleGroups, Runtime,
    Storage, System,
};
use crate::names;

/// The document, with the keys of cluster.yaml. What is not set (no value, no items) is left out; reading it gives the same
/// cluster again.
pub fn document(cluster: &Cluster) -> Value {
    let mut spec = Map::new();
    if let Some(kubernetes) = &cluster.kubernetes {
        put::<Vec<Host>>(&mut spec, "hosts", &cluster.hosts);
        if !cluster.hosts.is_empty() {
            spec.insert("roleGroups".to_owned(), roles(&cluster.role_groups).into());
        }
        put::<System>(&mut spec, "system", &cluster.system);
        put::<Extra>(&mut spec, "extra", &cluster.extra);
        put::<NamedOnce<Operator>>(&mut spec, "operators", &cluster.operators);
        put::<Kubernetes>(&mut spec, "kubernetes", kubernetes);
        put::<Etcd>(&mut spec, "etcd", &cluster.etcd);
        put::<Runtime>(&mut spec, "runtime", &cluster.runtime);
        put::<Network>(&mut spec, "network", &cluster.network);
        put::<LoadBalancer>(&mut spec, "loadBalancer", &cluster.load_balancer);
        put::<Registry>(&mut spec, "registry", &cluster.registry);
        put::<Addons>(&mut spec, "addons", &cluster.addons);
        put::<Storage>(&mut spec, "storage", &cluster.storage);
    }
    put::<Bundle>(&mut spec, "bundle", &cluster.bundle);
    json!({
        "apiVersion": names::CLUSTER_API_VERSION,
        "kind": "Cluster",
        "metadata": {"name": cluster.name},
        "spec": spec,
    })
}

fn roles(roles: &RoleGroups) -> Map<String, Value> {
    let mut groups = Map::new();
    put::<Vec<String>>(&mut groups, "etcd", &roles.etcd);
    put::<Vec<String>>(&mut groups, "master", &roles.control_plane);
    put::<Vec<String>>(&mut groups, "worker", &roles.worker);
    put::<Vec<String>>(&mut groups, "loadbalancer", &roles.load_balancer);
    put::<Vec<String>>(&mut groups, "registry", &roles.registry);
    groups
}
