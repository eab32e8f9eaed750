//! `kubeadm reset --force`: the way back of init and join, and what clears a half-done one.
//!
//! In this order: out of etcd's member list while that can still be asked, kubelet stopped, volumes unmounted (kubeadm
//! goes on when one does not let go), `kubeadm reset`, then everything that it leaves to the operator.

use std::fs;

use super::members::{self, Rest};
use super::{Progress, kubeadm_init, kubeadm_join, mark};
use crate::system::{ActContext, Program};
use crate::teardown::{cgroups, mounts, network, pods};
use crate::{Machine, OpError, fsio, systemd, transient};

const LIMIT_S: u64 = 300;
const CONFIGS: [&str; 6] = [
    "admin.conf",
    "super-admin.conf",
    "kubelet.conf",
    "bootstrap-kubelet.conf",
    "controller-manager.conf",
    "scheduler.conf",
];
/// Folders whose content kubeadm, kubelet and the CNI plugins made. kubeadm leaves the last three to the operator.
const FOLDERS: [&str; 7] = [
    "/etc/kubernetes/manifests",
    "/etc/kubernetes/pki",
    "/etc/kubernetes/tmp",
    "/var/lib/etcd",
    "/var/lib/kubelet",
    "/var/lib/cni",
    "/run/flannel",
];
/// Where containerd mounts what containers see as their root and their shared memory.
const TASKS: [&str; 2] =
    ["/run/containerd/io.containerd.runtime.v2.task/k8s.io", "/run/containerd/io.containerd.grpc.v1.cri"];
const VOLUMES: &str = "/var/lib/kubelet";
const CNI_CONFIGS: &str = "/etc/cni/net.d";
const KUBELET: &str = "kubelet.service";
/// No such file: kubeadm would wait a minute for an API server that lost its etcd, to take a member out that is out.
const NO_CLUSTER: &str = "/run/kubexm/no-kubeconfig";

/// Done: no kubeconfig and no static pod is left.
pub(super) fn observe(machine: &Machine) -> Result<Progress, OpError> {
    Ok(match (traces(machine)?.is_empty(), mark::any(machine)) {
        (true, false) => Progress::Done,
        (false, false) => Progress::Foreign,
        (_, true) => Progress::NotBegun,
    })
}

pub(super) fn converge(machine: &Machine, socket: &str) -> Result<(), OpError> {
    if observe(machine)? == Progress::Foreign {
        return Err(OpError::other(format!(
            "this node carries a Kubernetes that we did not make ({}): it is not reset by us; `kubeadm reset` it yourself \
             if nobody needs it, then run again",
            traces(machine)?.join(", ")
        )));
    }
    // As the way back of an init or join that is still running: it would go on building what we take away.
    for of in mark::Of::ALL {
        if let Some(act) = mark::read(machine, of)?.and_then(|mark| mark.act) {
            transient::stop(machine, &act)?;
        }
    }
    clear(machine, socket, Rest::MayBeGone)?;
    mark::remove_all(machine)
}

/// Takes away what an init or join left, whole or half, under a unit name of its own: the step's own name may belong to
/// the init, and attaching to that would pass for a reset.
pub(super) fn clear(machine: &Machine, socket: &str, rest: Rest) -> Result<(), OpError> {
    let clearing = match machine.act() {
        Some(act) => machine.with_act(ActContext { run: act.run.clone(), step: format!("{}.reset", act.step) }),
        None => machine.clone(),
    };
    members::leave(machine, rest)?;
    let kubelet = systemd::show(machine, KUBELET)?;
    if kubelet.active() || kubelet.running() {
        systemd::stop(machine, KUBELET)?;
    }
    mounts::unmount_below(machine, VOLUMES)?;
    clearing.run_act(&reset(socket))?;
    remove_leftovers(machine)
}

fn reset(socket: &str) -> Program {
    Program::new("kubeadm")
        .args(["reset", "--force", "--cri-socket", socket, "--kubeconfig", NO_CLUSTER])
        .within(LIMIT_S)
}

/// What an init or join of kubeadm leaves, whoever ran it.
pub(super) fn traces(machine: &Machine) -> Result<Vec<String>, OpError> {
    let mut found: Vec<String> = CONFIGS
        .iter()
        .map(|name| format!("/etc/kubernetes/{name}"))
        .chain(kubeadm_init::MANIFESTS.iter().map(|path| (*path).to_owned()))
        .chain(["/etc/kubernetes/manifests/etcd.yaml", "/etc/kubernetes/pki/ca.crt"].map(str::to_owned))
        .filter(|path| machine.path(path).exists())
        .collect();
    if machine.path("/var/lib/etcd/member").exists() {
        found.push("/var/lib/etcd/member".to_owned());
    }
    Ok(found)
}

fn remove_leftovers(machine: &Machine) -> Result<(), OpError> {
    // Whatever kubeadm left running: it only warns when the runtime does not answer.
    pods::stop_all(machine)?;
    TASKS.iter().try_for_each(|folder| mounts::unmount_below(machine, folder))?;
    for name in CONFIGS {
        fsio::remove(&machine.path(format!("/etc/kubernetes/{name}")))?;
    }
    fsio::remove(&machine.path(kubeadm_join::CONFIG))?;
    for folder in FOLDERS {
        for path in mounts::entries(&machine.path(folder))? {
            let below = path.strip_prefix(machine.root()).unwrap_or(&path);
            mounts::remove_tree(machine, &format!("/{}", below.display()))?;
        }
    }
    if let Ok(entries) = fs::read_dir(machine.path(CNI_CONFIGS)) {
        for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().contains("flannel")) {
            fsio::remove(&entry.path())?;
        }
    }
    cgroups::remove(machine)?;
    network::clear(machine)
}
