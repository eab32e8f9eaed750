//! Folders of a node that Kubernetes, its pods and the container runtime make and fill. The one list of them: preflight,
//! steps, rollback, reset and the simulation take theirs from here.

/// The network configuration that flannel's pods write for the runtime.
pub const FLANNEL_CONF: &str = "/etc/cni/net.d/10-flannel.conflist";
/// Folders of CNI, and what flannel's pods put into them where they were there before.
pub const OF_CNI: [&str; 4] = ["/opt/cni", "/opt/cni/bin/flannel", "/etc/cni", FLANNEL_CONF];
/// Folders that containerd makes and fills (`root`, `state`, and the plugin `opt`).
pub const OF_CONTAINERD: [&str; 3] = ["/opt/containerd", "/run/containerd", "/var/lib/containerd"];
/// Folders that kubeadm, kubelet and the cluster's own pods make and fill.
pub const OF_KUBERNETES: [&str; 8] = [
    "/etc/kubernetes",
    "/run/flannel",
    "/usr/libexec/kubernetes",
    "/var/lib/cni",
    ETCD,
    KUBELET,
    "/var/log/containers",
    "/var/log/pods",
];
/// Those of [`OF_KUBERNETES`] that must be cleared before an init or a join can be tried again.
pub const CLEARED: [&str; 5] = ["/etc/kubernetes", "/run/flannel", "/var/lib/cni", ETCD, KUBELET];
/// etcd's data directory, as kubeadm has it.
pub const ETCD: &str = "/var/lib/etcd";
/// kubelet's root directory.
pub const KUBELET: &str = "/var/lib/kubelet";

/// Name of what [`crate::op::MoveAside`] moved: `/var/lib/.kubexm-before-etcd`, or `/var/lib/etcd/.kubexm-before` in a
/// folder that is a mount point or a link. Another name than that of a reset ([`crate::op::reset::ASIDE`]): both may be there.
pub const MOVED: &str = ".kubexm-before";

/// Every state folder that does not lie in another one, sorted.
pub fn all() -> Vec<&'static str> {
    let listed = || OF_CNI.into_iter().chain(OF_CONTAINERD).chain(OF_KUBERNETES);
    let mut roots: Vec<&str> = listed().filter(|path| !listed().any(|other| is_below(path, other))).collect();
    roots.sort_unstable();
    roots
}

/// Whether a path is a folder, or lies in it.
pub fn holds(folder: &str, path: &str) -> bool {
    path == folder || is_below(path, folder)
}

/// Whether a path lies in a folder.
pub fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_looked_at_once_and_none_is_left_out() {
        let all = all();
        for path in OF_CNI.into_iter().chain(OF_CONTAINERD).chain(OF_KUBERNETES) {
            let holders = all.iter().filter(|folder| path == **folder || is_below(path, folder)).count();
            assert_eq!(holders, 1, "{path}");
        }
    }

    #[test]
    fn nothing_is_cleared_that_no_state_folder_remembers() {
        assert!(CLEARED.iter().all(|path| OF_KUBERNETES.contains(path)));
    }
}
