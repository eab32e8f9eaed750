//! Names and paths on a node that recipes write. Nothing else in this crate spells a path of a node.

/// The node's content store, which the depot serves from.
pub const STORE: &str = "/var/lib/kubexm/store";
/// One folder for each repository of packages.
pub const REPOSITORIES: &str = "/var/lib/kubexm/repos";
/// What the depot serves besides the content store: files by digest, as there.
pub const DEPOT_METADATA: &str = "/var/lib/kubexm/depot";
/// Where the administrator of a host that is no node keeps the keys of the depot's repositories.
pub const BY_HAND: &str = "/etc/kubexm-packages";
/// Where our programs and Kubernetes' go.
pub const BIN: &str = "/usr/local/bin";
/// Folder of our configs.
pub const OURS: &str = "/etc/kubexm";
/// The CA that nodes trust the registry by.
pub const REGISTRY_CA: &str = "/etc/kubexm/registry-ca.crt";
/// Config of the depot.
pub const DEPOT_CONFIG: &str = "/etc/kubexm/depot/config.json";
/// The depot's copy of the CA.
pub const DEPOT_CA: &str = "/etc/kubexm/depot/ca.crt";
/// The depot's certificate.
pub const DEPOT_CERT: &str = "/etc/kubexm/depot/tls.crt";
/// The depot's key.
pub const DEPOT_KEY: &str = "/etc/kubexm/depot/tls.key";
/// Config of the distribution registry.
pub const REGISTRY_CONFIG: &str = "/etc/kubexm/registry/config.yml";
/// The registry's certificate.
pub const REGISTRY_CERT: &str = "/etc/kubexm/registry/tls.crt";
/// The registry's key.
pub const REGISTRY_KEY: &str = "/etc/kubexm/registry/tls.key";
/// The registry's copy of the CA.
pub const REGISTRY_OWN_CA: &str = "/etc/kubexm/registry/ca.crt";
/// CNI plugins.
pub const CNI_BIN: &str = "/opt/cni/bin";
/// CNI network configs.
pub const CNI_CONF: &str = "/etc/cni/net.d";
/// crictl's config.
pub const CRICTL_CONFIG: &str = "/etc/crictl.yaml";
/// Drop-in of the kubelet unit.
pub const KUBELET_DROPIN: &str = "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf";
/// kubeadm's config.
pub const KUBEADM_CONFIG: &str = "/etc/kubexm/kubeadm.yaml";
/// Scripts of the user, each in a folder of its own.
pub const SCRIPTS: &str = "/var/lib/kubexm/scripts";
/// What kube-apiserver reads about its audit log.
pub const AUDIT: &str = "/etc/kubexm/audit";
/// Its policy.
pub const AUDIT_POLICY: &str = "/etc/kubexm/audit/policy.yaml";
/// The kubeconfig by which it sends events.
pub const AUDIT_WEBHOOK: &str = "/etc/kubexm/audit/webhook.kubeconfig";
/// Where it writes.
pub const AUDIT_LOGS: &str = "/var/log/kubernetes/audit";
/// Patches that kubeadm puts over its own files on this node (`patches.directory`).
pub const KUBEADM_PATCHES: &str = "/etc/kubexm/patches";
/// Over the KubeletConfiguration that the cluster keeps (`target+patchtype.extension`, kubeadm's "Customizing components").
pub const KUBELET_PATCH: &str = "/etc/kubexm/patches/kubeletconfiguration+merge.yaml";
/// chrony's configuration, as Debian has it.
pub const CHRONY_DEB: &str = "/etc/chrony/chrony.conf";
/// chrony's configuration, as Red Hat has it.
pub const CHRONY_RPM: &str = "/etc/chrony.conf";
/// Where chrony keeps how fast the clock goes by itself; packages of rpm's family leave it behind.
pub const OF_CHRONY: [&str; 2] = ["/var/lib/chrony", "/var/log/chrony"];
/// The node's resolver.
pub const RESOLV: &str = "/etc/resolv.conf";
/// systemd-resolved's list of the servers that it asks itself.
pub const RESOLVED_RESOLV: &str = "/run/systemd/resolve/resolv.conf";
/// What kubelet gives to pods of `dnsPolicy: Default` where /etc/resolv.conf is of no use.
pub const KUBELET_RESOLV: &str = "/etc/kubexm/resolv.conf";
/// Kernel parameters.
pub const SYSCTL: &str = "/etc/sysctl.d/99-kubexm-cri.conf";
/// Kernel modules at boot.
pub const MODULES: &str = "/etc/modules-load.d/kubexm.conf";

/// Path of a systemd unit of ours.
pub fn unit(name: &str) -> String {
    format!("/etc/systemd/system/{name}")
}

/// Path of a program of ours.
pub fn bin(name: &str) -> String {
    format!("{BIN}/{name}")
}
