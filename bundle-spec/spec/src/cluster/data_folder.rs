//! Folders that cluster.yaml names for somebody's data: each belongs to that one alone.

use super::etcd::EtcdKind;
use super::{Cluster, RegistryKind, Roles};

/// Folders that no data may be in, and that may not be in them: of the system, of kubexm, and of what it installs.
const NOT_FOR_DATA: [&str; 26] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt/cni",
    "/opt/containerd",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/tmp",
    "/usr",
    "/var/cache",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/dpkg",
    "/var/lib/etcd",
    "/var/lib/kubelet",
    "/var/lib/kubexm",
    "/var/lib/kubexm-harbor",
    "/var/log",
    "/var/tmp",
];
/// Folders that have those of many: one in them may be.
const SHARED: [&str; 6] = ["/home", "/media", "/mnt", "/opt", "/root", "/srv"];

/// Whether a folder is, holds, or is in a folder of the system, of kubexm, or of something that it installs, other than its usual one.
pub(super) fn is_of_others(folder: &str, usual: Option<&str>) -> bool {
    usual != Some(folder) && (SHARED.contains(&folder) || is_named(folder))
}

/// The same, without the folders that have those of many.
pub(super) fn is_named(folder: &str) -> bool {
    NOT_FOR_DATA.iter().any(|other| holds(other, folder) || holds(folder, other))
}

/// Whether a folder is another one, or contains it.
pub(super) fn holds(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Cluster {
    /// Folders that cluster.yaml names for data in place of the usual ones, and that services of a host with these roles fill.
    pub fn data_folders(&self, roles: Roles) -> Vec<&str> {
        let etcd = self.etcd_folder(roles).filter(|_| self.etcd.has_own_folder());
        let runtime = self.runtime.own_folder().filter(|_| roles.in_cluster());
        etcd.into_iter().chain(runtime).collect()
    }

    /// Where a member of etcd writes on a host with these roles.
    pub fn etcd_folder(&self, roles: Roles) -> Option<&str> {
        (roles.etcd && self.etcd.kind != EtcdKind::External).then_some(self.etcd.data_dir.as_str())
    }

    /// Where volumes lie on a host with these roles that are folders of it: users' data, which no command removes.
    pub fn volumes_folder(&self, roles: Roles) -> Option<&str> {
        let open_ebs = self.storage.open_ebs.as_ref().filter(|_| roles.in_cluster());
        open_ebs.map(|open_ebs| open_ebs.base_path.as_str())
    }

    /// The folder of the data of a registry on a host with these roles. It may have been used by an earlier one.
    pub fn registry_folder(&self, roles: Roles) -> Option<&str> {
        let has_folder = matches!(self.registry.kind, RegistryKind::Registry | RegistryKind::Harbor);
        (roles.registry && has_folder).then_some(self.registry.data_dir.as_str())
    }
}
