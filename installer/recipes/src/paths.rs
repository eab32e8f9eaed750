//! Names and paths on a node that several recipes use.

/// Everything of kubexm that survives a reboot; nothing of anybody else's belongs there.
pub const STATE: &str = "/var/lib/kubexm";
/// The node's content store, which the depot serves from.
pub const STORE: &str = "/var/lib/kubexm/store";
/// One folder for each repository of packages.
pub const REPOSITORIES: &str = "/var/lib/kubexm/repos";
/// Files that the depot serves besides the content store, also stored by digest.
pub const DEPOT_METADATA: &str = "/var/lib/kubexm/depot";
/// Folder for the CA and keys on a host that uses the depot's repositories without being a node.
pub const PACKAGE_CLIENT: &str = "/etc/kubexm-packages";
/// Folder of kubexm's and Kubernetes' programs.
pub const BIN: &str = kubexm_plan::facts::PROGRAMS;
/// Folder of kubexm's configuration files.
pub const CONFIG_DIR: &str = "/etc/kubexm";
/// The registry's CA certificate, which nodes trust.
pub const REGISTRY_CA: &str = "/etc/kubexm/registry-ca.crt";
/// The login that a node shows to the cluster's depot.
pub const REGISTRY_LOGIN: &str = "/etc/kubexm/registry-login";
/// The CA of the user's registry.
pub const EXTERNAL_CA: &str = "/etc/kubexm/external-registry-ca.crt";
/// Config of the depot.
pub const DEPOT_CONFIG: &str = kubexm_plan::depot::CONFIG;
/// The configs of all bundles that the cluster has had.
pub const DEPOT_BUNDLES: &str = kubexm_plan::depot::BUNDLES;
/// The depot's copy of the CA.
pub const DEPOT_CA: &str = kubexm_plan::depot::CA;
/// The depot's certificate.
pub const DEPOT_CERT: &str = "/etc/kubexm/depot/tls.crt";
/// The depot's key.
pub const DEPOT_KEY: &str = "/etc/kubexm/depot/tls.key";
/// The login that the depot demands.
pub const DEPOT_HTPASSWD: &str = "/etc/kubexm/depot/htpasswd";
/// The same as a client of the depot's own host shows it.
pub const DEPOT_LOGIN: &str = kubexm_plan::depot::LOGIN;
/// Config of the distribution registry.
pub const REGISTRY_CONFIG: &str = "/etc/kubexm/registry/config.yml";
/// The registry's certificate.
pub const REGISTRY_CERT: &str = "/etc/kubexm/registry/tls.crt";
/// The registry's key.
pub const REGISTRY_KEY: &str = "/etc/kubexm/registry/tls.key";
/// The login that the registry demands.
pub const REGISTRY_HTPASSWD: &str = "/etc/kubexm/registry/htpasswd";
/// The same as a client of the registry's own host shows it.
pub const REGISTRY_OWN_LOGIN: &str = "/etc/kubexm/registry/login";
/// The registry's copy of the CA.
pub const REGISTRY_OWN_CA: &str = "/etc/kubexm/registry/ca.crt";
/// Harbor's programs, its installer and our scripts.
pub const HARBOR_HOME: &str = "/usr/local/lib/kubexm-harbor";
/// Images and containers of its engine, and the password of its administrator as it was started with.
pub const HARBOR_STATE: &str = "/var/lib/kubexm-harbor";
/// Sockets and process ids of its engine.
pub const HARBOR_RUN: &str = "/run/kubexm-harbor";
/// Its logs, unless cluster.yaml names another folder.
pub const HARBOR_LOGS: &str = "/var/log/harbor";
/// The password of its user admin, written when it is started.
pub const HARBOR_ADMIN_PASSWORD: &str = "/var/lib/kubexm-harbor/admin-password";
/// Folder of its configuration.
pub const HARBOR_CONFIG_DIR: &str = "/etc/kubexm/harbor";
/// harbor.yml without passwords and database.
pub const HARBOR_CONFIG: &str = "/etc/kubexm/harbor/harbor.yml";
/// Its fields of the database.
pub const HARBOR_DATABASE: &str = "/etc/kubexm/harbor/database.yml";
/// The engine's configuration.
pub const HARBOR_ENGINE_CONFIG: &str = "/etc/kubexm/harbor/engine.json";
/// The password of its user admin from cluster.yaml's source.
pub const HARBOR_ADMIN_SOURCE: &str = "/etc/kubexm/harbor/admin-password";
/// The password of its database from cluster.yaml's source.
pub const HARBOR_DATABASE_SOURCE: &str = "/etc/kubexm/harbor/database-password";
/// Its copy of the CA.
pub const HARBOR_CA: &str = "/etc/kubexm/harbor/ca.crt";
/// Its certificate.
pub const HARBOR_CERT: &str = "/etc/kubexm/harbor/tls.crt";
/// Its key.
pub const HARBOR_KEY: &str = "/etc/kubexm/harbor/tls.key";
/// The nodes' login, as a client of Harbor's own host shows it.
pub const HARBOR_LOGIN: &str = "/etc/kubexm/harbor/login";
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
/// kubeadm's config of an upgrade, until that is done.
pub const KUBEADM_UPGRADE_CONFIG: &str = "/etc/kubexm/kubeadm-upgrade.yaml";
/// The user's scripts, each in its own folder.
pub const SCRIPTS: &str = "/var/lib/kubexm/scripts";
/// Folder of kube-apiserver's audit configuration.
pub const AUDIT: &str = "/etc/kubexm/audit";
/// Its policy.
pub const AUDIT_POLICY: &str = "/etc/kubexm/audit/policy.yaml";
/// The kubeconfig for sending audit events.
pub const AUDIT_WEBHOOK: &str = "/etc/kubexm/audit/webhook.kubeconfig";
/// Folder of the audit log.
pub const AUDIT_LOGS: &str = "/var/log/kubernetes/audit";
/// Patches that kubeadm applies to its own files on this node (`patches.directory`).
pub const KUBEADM_PATCHES: &str = "/etc/kubexm/patches";
/// Patch for the cluster's KubeletConfiguration (`target+patchtype.extension`, kubeadm's "Customizing components").
pub const KUBELET_PATCH: &str = "/etc/kubexm/patches/kubeletconfiguration+merge.yaml";
/// chrony's configuration on Debian.
pub const CHRONY_DEB: &str = "/etc/chrony/chrony.conf";
/// chrony's configuration on Red Hat.
pub const CHRONY_RPM: &str = "/etc/chrony.conf";
/// Folders of chrony's drift file and logs; removing the rpm package leaves them behind.
pub const CHRONY_STATE: [&str; 2] = ["/var/lib/chrony", "/var/log/chrony"];
/// The node's resolver.
pub const RESOLV: &str = "/etc/resolv.conf";
/// systemd-resolved's list of its upstream servers.
pub const RESOLVED_RESOLV: &str = "/run/systemd/resolve/resolv.conf";
/// resolv.conf for pods with `dnsPolicy: Default`, where /etc/resolv.conf cannot be used.
pub const KUBELET_RESOLV: &str = "/etc/kubexm/resolv.conf";
/// Kernel parameters.
pub const SYSCTL: &str = "/etc/sysctl.d/99-kubexm-cri.conf";
/// Kernel modules at boot.
pub const MODULES: &str = "/etc/modules-load.d/kubexm.conf";

/// Folder of kubelet's static pods (kubeadm's `staticPodPath`).
pub const STATIC_PODS: &str = "/etc/kubernetes/manifests";

/// Path of the manifest of a static pod.
pub fn static_pod(name: &str) -> String {
    format!("{STATIC_PODS}/{name}.yaml")
}

/// Path of a systemd unit that kubexm writes.
pub fn unit(name: &str) -> String {
    format!("/etc/systemd/system/{name}")
}

/// Path of a program that kubexm installs.
pub fn bin(name: &str) -> String {
    format!("{BIN}/{name}")
}
