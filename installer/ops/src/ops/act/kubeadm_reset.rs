//! `kubeadm reset --force`: the rollback of init and join, and the cleanup of a half-done one.
//!
//! The order is: remove the etcd member while etcd can still be reached, stop kubelet, unmount volumes (kubeadm ignores
//! failures), `kubeadm reset`, which removes the containers, and remove everything that was added since the init or
//! join. Earlier content is kept, as recorded in the [`mark`].

use kubexm_plan::kubeadm_certificates::CLUSTER_CA;
use kubexm_plan::op::{KubeadmReset, Progress};
use kubexm_plan::{network, runtime, state_folders};

use super::members::{self, Rest};
use super::perform::Perform;
use super::{files, mark};
use crate::path_state::{PathEntry, PathState};
use crate::system::{ActContext, Program};
use crate::teardown::{self, cgroups, datapath, foreign, mounts, moving_address, pods, unmount};
use crate::{Machine, OpError, etcd_unit, folder, fsio, given, own_etcd, systemd, transient};

const LIMIT_S: u64 = 300;
const CONFIGS: [&str; 6] = [
    "admin.conf",
    "super-admin.conf",
    "kubelet.conf",
    "bootstrap-kubelet.conf",
    "controller-manager.conf",
    "scheduler.conf",
];
/// Folders that are hidden from `kubeadm reset`, which would delete their whole content. kubexm removes only what was
/// added since the init or join was started.
///
/// Without a static pod of etcd it takes etcd's usual folder for its own (removeetcdmember.go), wherever the data is.
const HIDDEN: [&str; 4] = ["/etc/kubernetes", "/var/lib/cni", state_folders::ETCD, state_folders::KUBELET];
const KUBELET: &str = "kubelet.service";
/// A file that does not exist: with a kubeconfig, kubeadm would wait a minute for an API server without etcd, to remove
/// a member that is removed already.
const NO_CLUSTER: &str = "/run/kubexm/no-kubeconfig";

impl Perform for KubeadmReset {
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        observe(machine)
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        converge(machine, &self.cri_socket)
    }
}

/// Done: no kubeconfig and no static pod is left.
fn observe(machine: &Machine) -> Result<Progress, OpError> {
    Ok(match (traces(machine)?.is_empty(), mark::any(machine)) {
        (true, false) => Progress::Done,
        (false, false) => Progress::Foreign,
        (_, true) => Progress::NotBegun,
    })
}

fn converge(machine: &Machine, socket: &str) -> Result<(), OpError> {
    if observe(machine)? == Progress::Foreign {
        return Err(OpError::other(format!(
            "this node has a Kubernetes that kubexm did not install ({}): kubexm does not reset it; `{}` \
             it yourself if nobody needs it, then run again",
            traces(machine)?.join(", "),
            own_etcd::by_hand(machine)
        )));
    }
    // An init or join that is still running is stopped: it would recreate what is being removed.
    for of in mark::Of::ALL {
        if let Some(act) = mark::read_to_reset(machine, of)?.and_then(|mark| mark.act) {
            transient::stop(machine, &act)?;
        }
    }
    clear(machine, socket, Rest::MayBeGone)?;
    mark::remove_all(machine)
}

/// Removes what a complete or half-done init or join has left, under a separate unit name: the step's own name may
/// belong to the init, and attaching to that would be mistaken for a reset.
pub(super) fn clear(machine: &Machine, socket: &str, rest: Rest) -> Result<(), OpError> {
    let clearing = match machine.act() {
        Some(act) => machine.with_act(ActContext { run: act.run.clone(), step: format!("{}.reset", act.step) }),
        None => machine.clone(),
    };
    // Both before anything is stopped.
    let before = mark::before(machine)?;
    let data = own_etcd::data_dir(machine)?;
    let folders = state_folders::all().into_iter().chain((data != state_folders::ETCD).then_some(data.as_str()));
    // Folders of another runtime may be somebody else's: podman shares some.
    let others = runtime::INSTALLED.iter().filter(|runtime| runtime.endpoint != socket);
    let others: Vec<&str> = others.flat_map(|runtime| runtime.state).copied().collect();
    folders
        .into_iter()
        .filter(|folder| !others.contains(folder))
        .try_for_each(|folder| foreign::refuse(machine, folder))?;
    datapath::refuse(machine)?;
    members::leave(machine, rest)?;
    let kubelet = systemd::show(machine, KUBELET)?;
    if kubelet.active() || kubelet.running() {
        systemd::stop(machine, KUBELET)?;
    }
    unmount::unmount_below(machine, state_folders::KUBELET)?;
    clearing.run_act(&reset(socket, data))?;
    remove_leftovers(machine, socket, &before)
}

fn reset(socket: &str, data: String) -> Program {
    Program::new("kubeadm")
        .args(["reset", "--force", "--cri-socket", socket, "--kubeconfig", NO_CLUSTER])
        .hiding(HIDDEN.into_iter().map(str::to_owned).chain((data != state_folders::ETCD).then_some(data)))
        .within(LIMIT_S)
}

/// What an init or join of kubeadm leaves, whoever ran it.
pub(super) fn traces(machine: &Machine) -> Result<Vec<String>, OpError> {
    let mut found: Vec<String> = CONFIGS
        .iter()
        .map(|name| format!("/etc/kubernetes/{name}"))
        .chain(files::MANIFESTS.iter().map(|path| (*path).to_owned()))
        .chain(["/etc/kubernetes/manifests/etcd.yaml", CLUSTER_CA].map(str::to_owned))
        .filter(|path| machine.path(path).exists())
        .collect();
    // The site's own CA, and what it has signed, is put there before an init or a join.
    if !found.is_empty() {
        let given = given::paths(machine)?;
        found.retain(|path| !given.contains(path));
    }
    let member = format!("{}/member", own_etcd::data_dir(machine)?);
    if machine.path(&member).exists() && !etcd_unit::has_member(machine) {
        found.push(member);
    }
    Ok(found)
}

fn remove_leftovers(machine: &Machine, socket: &str, before: &[PathState]) -> Result<(), OpError> {
    // Stops what kubeadm has left running: it only warns if the runtime does not answer.
    pods::stop_all(machine)?;
    moving_address::remove(machine)?;
    let used = runtime::INSTALLED.iter().filter(|runtime| runtime.endpoint == socket);
    let mounts = used.flat_map(|runtime| runtime.container_mounts);
    mounts.into_iter().try_for_each(|folder| unmount::unmount_below(machine, folder))?;
    fsio::remove(&machine.path(files::JOIN_CONFIG))?;
    // A network's own files say which routes are its.
    teardown::network::clear(machine)?;
    for place in before {
        remove_new(machine, place)?;
    }
    cgroups::remove(machine)
}

/// Removes what was added to a folder; the folder itself is left to the op that recorded whether it existed.
fn remove_new(machine: &Machine, before: &PathState) -> Result<(), OpError> {
    let held = before.held.as_deref().unwrap_or_default();
    if before.path == state_folders::CNI_CONFIGS {
        // None of the other files here is written after kubeadm.
        let configs = network::any().flat_map(|network| network.cni_configs);
        let new = |path: &&&str| !held.iter().any(|held| path.rsplit('/').next() == Some(held));
        return configs.filter(new).try_for_each(|path| fsio::remove(&machine.path(path)));
    }
    match mounts::at(machine, &before.path)?.filter(|_| before.entry == PathEntry::Absent) {
        Some(mount) => Err(mounts::left_alone(&mount)),
        None => folder::remove_new(machine, &before.path, held),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};
    use crate::fake::host::SOCKET;

    impl ActCases for KubeadmReset {
        const TESTED: Tested<ActCase<Self>> = Tested::Here(&[ActCase {
            name: "kubeadm reset",
            host: |h| {
                h.with_cluster();
                KubeadmReset { cri_socket: SOCKET.into() }
            },
            progress: Progress::NotBegun,
            undo: None,
        }]);
    }
}
