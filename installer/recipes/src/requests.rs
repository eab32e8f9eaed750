//! The certificates that a site's CA signs for a cluster when its key stays with the site (`spec.kubernetes.ca.certificatesFolder`): what is
//! requested, from cluster.yaml alone.
//!
//! They are what kubeadm would sign with that CA: for each control plane those of `cmd/kubeadm/app/phases/certs/certlist.go` and
//! `phases/kubeconfig`, for each node its kubelet's. Those of etcd and of the front proxy have authorities that kubeadm makes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use kubexm_plan::{CertificateRequest, Requested};
use kubexm_spec::cluster::{Cluster, Host};

use crate::context::service_address;
use crate::error::RecipeError;

/// kubeadm's group of administrators, whom RBAC lets do everything (`constants.ClusterAdminsGroupAndClusterRoleBinding`).
const ADMINS: &str = "kubeadm:cluster-admins";
/// The group that no RBAC locks out.
const MASTERS: &str = "system:masters";
/// The group of kubelets, and how the names of its members begin.
const NODES: &str = "system:nodes";
const NODE: &str = "system:node:";

/// Every certificate that the site signs for this cluster: hosts in the order of cluster.yaml.
///
/// # Errors
/// A host has no address of its own, or is named as a certificate of another one.
pub fn requests(cluster: &Cluster) -> Result<Vec<CertificateRequest>, RecipeError> {
    let mut all = Vec::new();
    for host in cluster.hosts.iter().filter(|host| cluster.roles(&host.name).in_cluster()) {
        all.extend(of_host(cluster, host)?);
    }
    let mut named: BTreeMap<&str, &str> = BTreeMap::new();
    for request in &all {
        if let Some(other) = named.insert(&request.name, &request.host) {
            return Err(RecipeError::SharedRequest {
                hosts: [other.to_owned(), request.host.clone()],
                name: request.name.clone(),
            });
        }
    }
    Ok(all)
}

/// Those of one host.
///
/// # Errors
/// It has no address of its own.
pub fn of_host(cluster: &Cluster, host: &Host) -> Result<Vec<CertificateRequest>, RecipeError> {
    let request = |of: Requested, common_name: &str, organization: Option<&str>| CertificateRequest {
        name: format!("{}-{of}", host.name),
        host: host.name.clone(),
        of,
        common_name: common_name.to_owned(),
        organizations: organization.map(str::to_owned).into_iter().collect(),
        sans: Vec::new(),
    };
    let mut all = Vec::new();
    if cluster.roles(&host.name).control_plane {
        all.push(CertificateRequest {
            sans: api_server_names(cluster, host)?,
            ..request(Requested::Apiserver, "kube-apiserver", None)
        });
        all.push(request(Requested::ApiserverKubeletClient, "kube-apiserver-kubelet-client", Some(ADMINS)));
        all.push(request(Requested::Admin, "kubernetes-admin", Some(ADMINS)));
        if cluster.first_control_plane().is_some_and(|first| first.name == host.name) {
            all.push(request(Requested::SuperAdmin, "kubernetes-super-admin", Some(MASTERS)));
        }
        all.push(request(Requested::ControllerManager, "system:kube-controller-manager", None));
        all.push(request(Requested::Scheduler, "system:kube-scheduler", None));
    }
    // Last, since a host that has it counts as one that has all others.
    all.push(request(Requested::Kubelet, &format!("{NODE}{}", host.name), Some(NODES)));
    Ok(all)
}

/// The names and addresses by which an API server is reached: kubeadm's own, and those that `certSANs` of kubeadm's config has.
fn api_server_names(cluster: &Cluster, host: &Host) -> Result<Vec<String>, RecipeError> {
    let kubernetes = cluster.kubernetes.as_ref().ok_or(RecipeError::NoCluster)?;
    let missing = || RecipeError::NoAddress { host: host.name.clone(), address: host.address.clone() };
    let ip = host.node_ip().ok_or_else(missing)?;
    let service = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned);
    let mut names: Vec<String> = service.into_iter().collect();
    names.push(format!("kubernetes.default.svc.{}", kubernetes.dns_domain));
    names.extend([cluster.control_plane_name(), "localhost".to_owned(), "127.0.0.1".to_owned()]);
    names.extend([host.name.clone(), ip.to_string(), host.address.clone()]);
    names.extend(host.second_node_ip().map(|ip| ip.to_string()));
    names.push(service_address(cluster, 1)?.to_string());
    names.extend(cluster.load_balancer.mode.vip().map(|vip| vip.to_string()));
    names.extend(kubernetes.cert_sans.iter().cloned());
    // An address is written in one way, and each once.
    let plain = |name: String| name.parse::<IpAddr>().map_or(name, |ip| ip.to_string());
    Ok(names.into_iter().map(plain).collect::<BTreeSet<_>>().into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn each_host_requests_what_kubeadm_would_have_signed_for_it() {
        let mut cluster = sample::fleet(2, 1);
        let kubernetes = cluster.kubernetes.as_mut().unwrap();
        kubernetes.cert_sans = vec!["api.site.example".to_owned(), "10.0.0.9".to_owned()];
        let all = requests(&cluster).unwrap();
        let lines: Vec<String> =
            all.iter().map(|one| format!("{}: {} {}", one.name, one.subject(), one.usage())).collect();
        assert_eq!(
            lines,
            [
                "node1-apiserver: CN=kube-apiserver serverAuth",
                "node1-apiserver-kubelet-client: CN=kube-apiserver-kubelet-client, O=kubeadm:cluster-admins clientAuth",
                "node1-admin: CN=kubernetes-admin, O=kubeadm:cluster-admins clientAuth",
                "node1-super-admin: CN=kubernetes-super-admin, O=system:masters clientAuth",
                "node1-controller-manager: CN=system:kube-controller-manager clientAuth",
                "node1-scheduler: CN=system:kube-scheduler clientAuth",
                "node1-kubelet: CN=system:node:node1, O=system:nodes clientAuth",
                "node2-apiserver: CN=kube-apiserver serverAuth",
                "node2-apiserver-kubelet-client: CN=kube-apiserver-kubelet-client, O=kubeadm:cluster-admins clientAuth",
                "node2-admin: CN=kubernetes-admin, O=kubeadm:cluster-admins clientAuth",
                "node2-controller-manager: CN=system:kube-controller-manager clientAuth",
                "node2-scheduler: CN=system:kube-scheduler clientAuth",
                "node2-kubelet: CN=system:node:node2, O=system:nodes clientAuth",
                "node3-kubelet: CN=system:node:node3, O=system:nodes clientAuth",
            ]
        );
        assert_eq!(
            all[0].sans,
            [
                "10.0.0.9",
                "10.233.0.1",
                "10.77.0.11",
                "127.0.0.1",
                "api.site.example",
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
                "kubernetes.default.svc.cluster.local",
                "lb.demo.kubexm.internal",
                "localhost",
                "node1",
            ]
        );
        assert!(all[1].sans.is_empty());
    }

    #[test]
    fn two_hosts_whose_certificates_would_share_a_file_are_refused_by_name() {
        let mut cluster = sample::fleet(2, 1);
        let (first, other) = (cluster.hosts[0].name.clone(), cluster.hosts[1].name.clone());
        let shared = format!("{first}-super");
        for name in cluster.role_groups.control_plane.iter_mut().filter(|name| **name == other) {
            name.clone_from(&shared);
        }
        cluster.hosts[1].name.clone_from(&shared);
        let error = requests(&cluster).unwrap_err();
        assert_eq!(error.exit_code(), kubexm_spec::ExitCode::Config);
        let text = error.to_string();
        assert!(text.contains("node1 and node1-super") && text.contains("node1-super-admin"), "{text}");
    }

    #[test]
    fn a_host_that_is_no_node_requests_nothing() {
        let cluster = sample::with_etcd();
        assert!(requests(&cluster).unwrap().iter().all(|one| !one.host.starts_with("etcd")));
    }
}
