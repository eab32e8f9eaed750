//! Keys and units that the simulated fleet gives a meaning.

pub(super) const ADMIN_CONF: &str = "path:/etc/kubernetes/admin.conf";
pub(super) const KUBELET_UNIT: &str = "kubelet.service";
pub(super) const KUBELET: &str = "unit:kubelet.service";
pub(super) const KUBELET_CONF: &str = "path:/etc/kubernetes/kubelet.conf";
pub(super) const KUBELET_CONFIG: &str = "path:/var/lib/kubelet/config.yaml";
/// End of the key of a member's data, in whatever folder it is.
pub(super) const ETCD_MEMBER: &str = "/member";
pub(super) const AGENT: &str = "path:/usr/local/bin/kubexm-install";
/// `read:kube-apiserver:/etc/x`: what a static pod read when it started.
pub(super) const READ: &str = "read:";
/// The version of the last `kubeadm upgrade` on a host.
pub(super) const UPGRADED: &str = "kubeadm-upgrade";
/// kubelet's configuration before that, on a worker.
pub(super) const BEFORE_UPGRADE: &str = "kubelet-config-before-upgrade";
/// Whether pods run on a host.
pub(super) const PODS: &str = "pods";
/// What pods create in the host's network.
pub(super) const NETWORK: &str = "network";
/// Who has cordoned a node, where the step does not say it.
pub(super) const SOMEBODY: &str = "yes";

/// The key of a host whose member has been removed from an etcd of kubexm's, while its unit may still run.
pub(super) fn left(host: &str) -> String {
    format!("left:{host}")
}
