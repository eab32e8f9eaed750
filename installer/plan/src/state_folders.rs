//! Folders of a node that Kubernetes, its pods and the container runtime create and fill. Preflight, steps, rollback,
//! reset and the simulation all use this list.

use crate::network::{self, NetworkTraits};
use crate::runtime;

/// Folders that kubeadm and kubelet create, whatever the network.
const OF_KUBERNETES: [&str; 7] = [
    "/etc/kubernetes",
    "/usr/libexec/kubernetes",
    "/var/lib/cni",
    ETCD,
    KUBELET,
    "/var/log/containers",
    "/var/log/pods",
];
/// Those of [`OF_KUBERNETES`] that must be cleared before an init or a join can be retried.
const CLEARED: [&str; 4] = ["/etc/kubernetes", "/var/lib/cni", ETCD, KUBELET];
/// etcd's data directory, with kubeadm.
pub const ETCD: &str = "/var/lib/etcd";
/// kubelet's root directory.
pub const KUBELET: &str = "/var/lib/kubelet";
/// Folder of CNI network configurations.
pub const CNI_CONFIGS: &str = "/etc/cni/net.d";

/// Name of the folder with content that [`crate::op::MoveAside`] moved: `/var/lib/.kubexm-before-etcd`, or
/// `/var/lib/etcd/.kubexm-before` in a folder that is a mount point or a link. It differs from that of a reset
/// ([`crate::op::reset::ASIDE`]), since both may exist.
pub const MOVED: &str = ".kubexm-before";

/// Folders of CNI, with what the pods of these networks write there.
pub fn of_cni(networks: &[&NetworkTraits]) -> Vec<&'static str> {
    let programs = networks.iter().flat_map(|network| network.cni_programs);
    let configs = networks.iter().flat_map(|network| network.cni_configs);
    std::iter::once("/opt/cni").chain(programs.copied()).chain(["/etc/cni"]).chain(configs.copied()).collect()
}

/// Folders that kubeadm, kubelet and the pods of these networks create and fill, and files that the pods write elsewhere, sorted. Those of a
/// switch in the kernel are among them, which [`all`] leaves out: a host may have one of its own.
pub fn of_kubernetes(networks: &[&NetworkTraits]) -> Vec<&'static str> {
    let mut all = with_runs(&OF_KUBERNETES, networks);
    all.extend(networks.iter().filter_map(|network| network.datapath).flat_map(|datapath| datapath.folders));
    all.extend(networks.iter().flat_map(|network| network.files));
    all.sort_unstable();
    all
}

/// The same for an etcd that kubeadm does not run.
pub fn of_kubernetes_without_etcd(networks: &[&NetworkTraits]) -> Vec<&'static str> {
    of_kubernetes(networks).into_iter().filter(|path| *path != ETCD).collect()
}

/// Folders that must be cleared before an init or a join can be retried, for any network.
pub fn cleared() -> Vec<&'static str> {
    with_runs(&CLEARED, &network::ALL)
}

fn with_runs(folders: &[&'static str], networks: &[&NetworkTraits]) -> Vec<&'static str> {
    let of_networks = networks.iter().flat_map(|network| network.folders());
    let mut all: Vec<&str> = folders.iter().copied().chain(of_networks).collect();
    all.sort_unstable();
    all
}

/// Every state folder of any network and runtime that is not inside another one, sorted.
pub fn all() -> Vec<&'static str> {
    let listed = listed();
    let inside = |path: &&str| listed.iter().any(|other| is_below(path, other));
    let mut roots: Vec<&str> = listed.iter().filter(|path| !inside(path)).copied().collect();
    roots.sort_unstable();
    roots
}

fn listed() -> Vec<&'static str> {
    let mut listed = of_cni(&network::ALL);
    listed.extend(runtime::INSTALLED.iter().flat_map(|runtime| runtime.state));
    // A file is no folder that could hold anything of others.
    listed.extend(with_runs(&OF_KUBERNETES, &network::ALL));
    listed
}

/// Whether a path is a folder, or is inside it.
pub fn holds(folder: &str, path: &str) -> bool {
    path == folder || is_below(path, folder)
}

/// Whether a path is inside a folder.
pub fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_looked_at_once_and_none_is_left_out() {
        let all = all();
        for path in listed() {
            let holders = all.iter().filter(|folder| path == **folder || is_below(path, folder)).count();
            assert_eq!(holders, 1, "{path}");
        }
    }

    #[test]
    fn nothing_is_cleared_that_no_state_folder_remembers() {
        let remembered = of_kubernetes(&network::ALL);
        assert!(cleared().iter().all(|path| remembered.contains(path)));
    }
}
