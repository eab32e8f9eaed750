//! Control groups of pods: their processes, and removal of empty groups.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::mounts;
use crate::system::Program;
use crate::{Machine, OpError, fsio};

/// The slice of kubelet's systemd driver.
const SLICE: &str = "kubepods.slice";

/// Whether a process is in a pod's group of this machine. A cluster inside a container of this machine has `kubepods`
/// groups too, below that container's own; these are left alone.
pub(super) fn is_of_a_pod(machine: &Machine, pid: u32) -> bool {
    let own = paths_of(machine, 1);
    paths_of(machine, pid).iter().any(|(hierarchy, path)| {
        let root = own.get(hierarchy).map_or("", String::as_str);
        let root = root.strip_suffix("/init.scope").unwrap_or(root).trim_end_matches('/');
        path.strip_prefix(root).is_some_and(|rest| rest.starts_with("/kubepods"))
    })
}

/// `/proc/<pid>/cgroup`: hierarchy → path (cgroups(7)).
fn paths_of(machine: &Machine, pid: u32) -> BTreeMap<String, String> {
    let text = fsio::read_text(&machine.path(format!("/proc/{pid}/cgroup"))).ok().flatten().unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            Some((fields.next()?.to_owned(), fields.nth(1)?.to_owned()))
        })
        .collect()
}

/// Removes kubelet's groups for pods, which must have no processes.
pub fn remove(machine: &Machine) -> Result<(), OpError> {
    let groups: Vec<String> = mounts::all(machine)?
        .into_iter()
        .filter(|mount| mount.filesystem.starts_with("cgroup"))
        .flat_map(|mount| ["kubepods", SLICE].map(|name| format!("{}/{name}", mount.point)))
        .filter(|path| machine.path(path).is_dir())
        .collect();
    if groups.iter().any(|group| group.ends_with(SLICE)) {
        // systemd knows the slice and would keep it; it is not an error if it does not.
        machine.try_run(&Program::new("systemctl").args(["stop", SLICE]))?;
    }
    groups.iter().try_for_each(|group| remove_group(&machine.path(group)))
}

/// Removes a group with rmdir(2), leaves first; its files belong to the kernel.
fn remove_group(group: &Path) -> Result<(), OpError> {
    let Ok(listed) = fs::read_dir(group) else { return Ok(()) };
    for entry in listed.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_group(&entry.path())?;
    }
    match fs::remove_dir(group) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(OpError::path("remove the control group", group)(error))
        }
        _ => Ok(()),
    }
}
