//! `kubeadm reset --force`: the way back of init and join, and what clears a half-done one.

use std::fs;
use std::path::Path;

use super::{Progress, kubeadm_init};
use crate::system::{ActContext, Program};
use crate::{Machine, OpError, fsio, transient};

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
const CNI_CONFIGS: &str = "/etc/cni/net.d";
/// Links that flannel and the bridge plugin made.
const INTERFACES: [&str; 2] = ["cni0", "flannel.1"];

/// Done: no kubeconfig and no static pod is left.
pub(super) fn observe(machine: &Machine) -> Result<Progress, OpError> {
    Ok(match (traces(machine)?.is_empty(), machine.path(kubeadm_init::MARK).exists()) {
        (true, false) => Progress::Done,
        _ => Progress::NotBegun,
    })
}

pub(super) fn converge(machine: &Machine, socket: &str) -> Result<(), OpError> {
    // As the way back of an init that is still running: it would go on building what we take away.
    if let Some(act) = machine.act() {
        transient::stop(machine, act)?;
    }
    clear(machine, socket)?;
    kubeadm_init::remove_mark(machine)
}

/// Takes away what an init left, whole or half, under a unit name of its own: the step's own name may belong to the
/// init, and attaching to that would pass for a reset.
pub(super) fn clear(machine: &Machine, socket: &str) -> Result<(), OpError> {
    let clearing = match machine.act() {
        Some(act) => machine.with_act(ActContext { run: act.run.clone(), step: format!("{}.reset", act.step) }),
        None => machine.clone(),
    };
    clearing.run_act(&reset(socket))?;
    remove_leftovers(machine)
}

fn reset(socket: &str) -> Program {
    Program::new("kubeadm").args(["reset", "--force", "--cri-socket", socket]).within(LIMIT_S)
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
    // A volume that is still mounted is somebody's data: rather stop than delete through it.
    if let Some(mount) = mounted_below(machine, "/var/lib/kubelet")? {
        return Err(OpError::other(format!(
            "{mount} is still mounted after `kubeadm reset`: unmount it (its data is not ours to delete), then run again"
        )));
    }
    for name in CONFIGS {
        fsio::remove(&machine.path(format!("/etc/kubernetes/{name}")))?;
    }
    for folder in FOLDERS {
        empty(&machine.path(folder))?;
    }
    if let Ok(entries) = fs::read_dir(machine.path(CNI_CONFIGS)) {
        for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().contains("flannel")) {
            fsio::remove(&entry.path())?;
        }
    }
    if machine.is_real() {
        for name in INTERFACES.iter().filter(|name| Path::new("/sys/class/net").join(name).exists()) {
            machine.run(&Program::new("ip").args(["link", "delete", name]))?;
        }
    }
    Ok(())
}

fn mounted_below(machine: &Machine, folder: &str) -> Result<Option<String>, OpError> {
    let text = fsio::read_text(&machine.path("/proc/self/mountinfo"))?.unwrap_or_default();
    let below = format!("{folder}/");
    Ok(text
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .find(|mount| mount.starts_with(&below))
        .map(str::to_owned))
}

/// Removes what is in a folder, and the folder itself where it is not one that was there before kubeadm.
fn empty(folder: &Path) -> Result<(), OpError> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(OpError::path("list", folder))?;
        let path = entry.path();
        let is_folder = entry.file_type().map_err(OpError::path("look at", &path))?.is_dir();
        if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
            .map_err(OpError::path("remove", &path))?;
    }
    Ok(())
}
