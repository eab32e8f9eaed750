//! Files and processes of another Kubernetes, container runtime or etcd.

use std::fs;

use kubexm_plan::facts::{Leftover, StateFolder};
use kubexm_plan::runtime::{self, docker};

use super::ours::Ours;
use super::processes::Process;
use crate::{Machine, OpError, folder};

/// Files that only a cluster leaves.
const FILES: [&str; 7] = [
    "/etc/kubernetes/admin.conf",
    "/etc/kubernetes/kubelet.conf",
    "/etc/kubernetes/pki/ca.crt",
    "/var/lib/kubelet/config.yaml",
    "/var/lib/etcd/member",
    "/etc/systemd/system/kubelet.service",
    "/usr/lib/systemd/system/kubelet.service",
];
/// etcd's unit: kubexm's would replace it. Identified by its name, in any folder.
const ETCD_UNIT: &str = "etcd.service";
const UNIT_FOLDERS: [&str; 3] = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
/// Folders that only a cluster fills.
const FOLDERS: [&str; 2] = ["/etc/kubernetes/manifests", "/etc/cni/net.d"];

pub(super) fn look(machine: &Machine, processes: &[Process], ours: &Ours) -> Result<Vec<Leftover>, OpError> {
    let mut found: Vec<Leftover> = FILES
        .iter()
        .filter(|path| machine.path(path).exists())
        .map(|path| Leftover { what: (*path).to_owned(), ours: ours.path(path) || ours.stamped() })
        .collect();
    for folder in FOLDERS {
        let Ok(entries) = fs::read_dir(machine.path(folder)) else { continue };
        for entry in entries.flatten().filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')) {
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            let ours = ours.path(&path) || ours.stamped();
            found.push(Leftover { what: path, ours });
        }
    }
    installed(machine, ours, &mut found);
    found.sort_by(|a, b| a.what.cmp(&b.what));
    runtimes(processes, ours, &mut found);
    for process in
        processes.iter().filter(|process| matches!(process.name.as_str(), "etcd" | "kubelet" | "kube-apiserver"))
    {
        found.push(Leftover {
            what: format!("{} running (pid {})", process.name, process.pid),
            ours: ours.process(process),
        });
    }
    Ok(found)
}

/// A docker engine, with or without containers: its process, and what is in its folders.
pub(super) fn of_docker(machine: &Machine, processes: &[Process], ours: &Ours) -> Vec<Leftover> {
    let daemons = processes.iter().filter(|process| process.name == docker::DAEMON);
    let mut found: Vec<Leftover> = daemons
        .map(|process| Leftover {
            what: format!("{} running (pid {})", process.name, process.pid),
            ours: ours.process(process),
        })
        .collect();
    for path in docker::FOLDERS {
        let content = folder::content(machine, path, StateFolder::MOST);
        if content.files > 0 {
            let more = if content.files > content.first.len() as u64 { ", \u{2026}" } else { "" };
            let what = format!("{path} ({}{more})", content.first.join(", "));
            found.push(Leftover { what, ours: ours.path(path) });
        }
    }
    found
}

/// Installed runtimes, with or without containers.
fn installed(machine: &Machine, ours: &Ours, found: &mut Vec<Leftover>) {
    let path_of = |unit: &&str| {
        let paths = UNIT_FOLDERS.iter().map(|folder| format!("{folder}/{unit}"));
        paths.into_iter().find(|path| machine.path(path).is_file())
    };
    let units = runtime::ALL.iter().flat_map(|runtime| runtime.units()).chain([ETCD_UNIT]);
    let configs = runtime::ALL.iter().map(|runtime| runtime.config.to_owned());
    for path in units.filter_map(|unit| path_of(&unit)).chain(configs) {
        if machine.path(&path).is_file() {
            let ours = ours.path(&path) || ours.stamped();
            found.push(Leftover { what: format!("{path} (installed)"), ours });
        }
    }
}

/// Container engines with containers; each container has one supervising process.
fn runtimes(processes: &[Process], ours: &Ours, found: &mut Vec<Leftover>) {
    let has = |name: &str| processes.iter().any(|process| process.name == name);
    for keeper in runtime::ALL.iter().filter_map(|runtime| runtime.keeper) {
        let (daemon, other) = keeper.shared_with;
        let engine = if has(daemon) { other } else { keeper.otherwise };
        // comm is limited to 15 bytes: `containerd-shim-runc-v2` appears as `containerd-shim`.
        let shims: Vec<&Process> =
            processes.iter().filter(|process| process.name.starts_with(keeper.program)).collect();
        let what = format!("{engine} with {} containers", shims.len());
        // Two runtimes may have the same supervisors.
        if !shims.is_empty() && !found.iter().any(|one| one.what == what) {
            found.push(Leftover { what, ours: shims.iter().all(|process| ours.process(process)) });
        }
    }
}
