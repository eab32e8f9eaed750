//! Whether cluster.yaml names the endpoint that the API servers of an adopted cluster have.

use kubexm_plan::ClusterFacts;
use kubexm_plan::kubeadm_certificates::ADMIN_CONF;
use kubexm_spec::cluster::Cluster;
use kubexm_spec::one_line;

/// Why the operator gets no kubeconfig on this machine: the name in cluster.yaml is what the API server's certificate is checked
/// against.
pub(crate) fn no_operator(cluster: &Cluster, running: &ClusterFacts, first: &str) -> Option<String> {
    let wanted = format!("https://{}:{}", cluster.control_plane_name(), cluster.control_plane_port());
    let kubelet = running.kubelets.iter().find(|one| one.host == first);
    let found = kubelet.and_then(|one| one.server.as_deref()).unwrap_or("none");
    (found != wanted).then(|| {
        format!(
            "no kubeconfig is written on this machine: the API server in {ADMIN_CONF} of {first} is {}, and that of cluster.yaml {wanted}; \
             copy that file yourself, or correct spec.loadBalancer in cluster.yaml",
            one_line(found)
        )
    })
}
