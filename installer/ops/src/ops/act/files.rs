//! Files that several acts use.

/// Static pods of a control plane, without etcd's.
pub(super) const MANIFESTS: [&str; 3] = [
    "/etc/kubernetes/manifests/kube-apiserver.yaml",
    "/etc/kubernetes/manifests/kube-controller-manager.yaml",
    "/etc/kubernetes/manifests/kube-scheduler.yaml",
];
/// kubexm's record of an upgrade.
pub(super) const UPGRADE_MARK: &str = "/var/lib/kubexm/acts/kubeadm-upgrade.json";
/// kubeadm's config of a join, which exists only during the call.
pub(super) const JOIN_CONFIG: &str = "/run/kubexm/kubeadm-join.yaml";
