//! Mounts below state folders that block a teardown, found before anything is stopped or unmounted.
//!
//! Mounts of pods are unmounted, and kubelet mounts them again after a rollback of the teardown. Other mounts would not
//! be mounted again, and their data would be deleted with the folder: they are reported and left alone, as are mounts
//! of pods that a process of the host uses, which could not be unmounted.

use std::cell::OnceCell;
use std::fs;
use std::path::Path;

use kubexm_plan::facts::ForeignMount;
use kubexm_plan::network;
use kubexm_plan::runtime::{self, RuntimeTraits};
use kubexm_plan::state_folders;

use super::cgroups;
use super::mounts::{self, Mount};
use crate::{Machine, OpError};

/// Programs that end before anything is unmounted.
fn ends(name: &str) -> bool {
    let of_runtime = |runtime: &&RuntimeTraits| {
        runtime.daemons.contains(&name) || runtime.keeper.is_some_and(|keeper| name.starts_with(keeper.program))
    };
    name == "kubelet" || runtime::INSTALLED.iter().any(of_runtime)
}

/// All such mounts, below every state folder, and below these.
pub fn look(machine: &Machine, folders: &[String]) -> Result<Vec<ForeignMount>, OpError> {
    let (mut found, uses) = (Vec::new(), Uses::new());
    for folder in state_folders::all().into_iter().chain(folders.iter().map(String::as_str)) {
        found.extend(below(machine, folder, &uses)?);
    }
    Ok(found)
}

/// Refuses a folder with such a mount below it.
pub fn refuse(machine: &Machine, folder: &str) -> Result<(), OpError> {
    let found = below(machine, folder, &Uses::new())?;
    if found.is_empty() {
        return Ok(());
    }
    let all: Vec<String> = found.iter().map(ToString::to_string).collect();
    Err(OpError::other(format!(
        "mounted below {folder}: {}; nothing was unmounted, and all are left with their data; unmount them, or end what \
         uses them (`fuser -vm` names it), then run again",
        all.join("; ")
    )))
}

/// Paths that processes of the host have open, each with its process: `bash (pid 512)`. Determined once, if anything is
/// mounted.
type Uses = OnceCell<Vec<(String, String)>>;

fn below(machine: &Machine, folder: &str, uses: &Uses) -> Result<Vec<ForeignMount>, OpError> {
    let mounted = mounts::below(machine, folder)?;
    if mounted.is_empty() {
        return Ok(Vec::new());
    }
    let fstab = mounts::fstab_points(machine)?;
    let uses = uses.get_or_init(|| look_at_processes(machine));
    let foreign = |mount: Mount| {
        let of_a_pod = !fstab.contains(&mount.point) && is_of_a_pod(machine, folder, &mount.point);
        let user = uses.iter().find(|(_, path)| Path::new(path).starts_with(&mount.point));
        let used_by = user.filter(|_| of_a_pod).map(|(process, _)| process.clone());
        (!of_a_pod || used_by.is_some()).then(|| ForeignMount {
            folder: folder.to_owned(),
            point: mount.point,
            filesystem: mount.filesystem,
            source: mount.source,
            used_by,
        })
    };
    Ok(mounted.into_iter().filter_map(foreign).collect())
}

/// Where kubelet mounts volumes (kubelet's `pods/<uid>/volumes/<plugin>/<name>`, volume-subpaths, block devices; below
/// `plugins/` what several pods share), and the root file systems and shared memory of containers, which may be in a folder
/// that cluster.yaml names.
fn is_of_a_pod(machine: &Machine, folder: &str, point: &str) -> bool {
    let inside = |folder: &str| {
        let rest = Path::new(point).strip_prefix(mounts::real(machine, folder)).ok()?;
        Some(rest.iter().map(|part| part.to_string_lossy().into_owned()).collect::<Vec<_>>())
    };
    let of_kubelet = inside(state_folders::KUBELET).is_some_and(|parts| {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts.as_slice() {
            ["pods", _, kind, _, ..] => ["volumes", "volume-subpaths", "volumeDevices"].contains(kind),
            ["plugins", _, _, ..] => true,
            _ => false,
        }
    });
    let of_runtime = |runtime: &&RuntimeTraits| {
        let containers = |name: &str| runtime.mount_folders.iter().any(|start| name.starts_with(start));
        let below = |folder: &&str| inside(folder).is_some_and(|parts| parts.len() > 1 && containers(&parts[0]));
        let own = || runtime.own_mounts.iter().any(|own| point == mounts::real(machine, own));
        runtime.state.iter().chain([&folder]).any(below) || own()
    };
    let of_network = || {
        let mut points = network::any().flat_map(|network| network.mounts);
        points.any(|own| point == mounts::real(machine, own))
    };
    of_kubelet || of_network() || runtime::INSTALLED.iter().any(of_runtime)
}

/// Whether a process is one of these programs, or was started by one: a container that is being created has the host's
/// mounts and lies outside its pod's control group for a moment, its root file system as its working directory.
fn ends_first(machine: &Machine, pid: u32) -> bool {
    let mut next = Some(pid);
    // A chain of parents that changes while it is read could lead into a circle.
    for _ in 0..64 {
        let Some(pid) = next.filter(|pid| *pid > 1) else { return false };
        let text = |file: &str| fs::read_to_string(machine.path(format!("/proc/{pid}/{file}"))).unwrap_or_default();
        // comm is limited to 15 bytes.
        if ends(text("comm").trim()) {
            return true;
        }
        next = text("status").lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
    }
    false
}

/// Processes of containers have their own mounts, or are in the control group of their pod, and end with it.
fn look_at_processes(machine: &Machine) -> Vec<(String, String)> {
    let namespace = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
    let proc = machine.path("/proc");
    let own = namespace(&proc.join("self"));
    let mut uses = Vec::new();
    for process in mounts::entries(&proc).unwrap_or_default() {
        let name = process.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Ok(pid) = name.parse::<u32>() else { continue };
        if namespace(&process) != own || cgroups::is_of_a_pod(machine, pid) || ends_first(machine, pid) {
            continue;
        }
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default().trim().to_owned();
        let open = mounts::entries(&process.join("fd")).unwrap_or_default();
        let links = ["cwd", "root", "exe"].into_iter().map(|link| process.join(link)).chain(open);
        for path in links.filter_map(|link| fs::read_link(link).ok()).filter(|path| path.is_absolute()) {
            uses.push((format!("{name} (pid {pid})"), path.to_string_lossy().into_owned()));
        }
    }
    uses
}
