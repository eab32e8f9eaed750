//! Processes of the host.

use std::fs;

use crate::Machine;

/// A process, with the properties that facts need.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub pid: u32,
    pub name: String,
    /// Path of its program, as seen by the process.
    pub exe: Option<String>,
    /// Whether its control group belongs to kubelet.
    pub in_pod: bool,
    /// Whether it is in a container of an engine, docker's (also Harbor's own) or podman's.
    pub in_container: bool,
    /// The service of systemd that it belongs to, `haproxy.service`.
    pub unit: Option<String>,
    /// Inodes of its sockets.
    pub sockets: Vec<u64>,
}

/// Every process of /proc that can be read.
pub(super) fn all(machine: &Machine) -> Vec<Process> {
    let proc = machine.path("/proc");
    let Ok(entries) = fs::read_dir(&proc) else { return Vec::new() };
    let mut found: Vec<Process> = entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_string_lossy().parse().ok()?;
            let folder = entry.path();
            let exe = fs::read_link(folder.join("exe")).ok().map(|path| path.to_string_lossy().into_owned());
            let groups = fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
            Some(Process {
                pid,
                name: fs::read_to_string(folder.join("comm")).unwrap_or_default().trim().to_owned(),
                // The path of a program that was replaced since still ends with this mark.
                exe: exe.map(|path| path.trim_end_matches(" (deleted)").to_owned()),
                in_pod: groups.contains("kubepods"),
                in_container: groups.split(['/', '\n']).any(is_container),
                unit: groups
                    .lines()
                    .flat_map(|line| line.split('/'))
                    .rfind(|part| part.ends_with(".service"))
                    .map(str::to_owned),
                sockets: sockets(&folder.join("fd")),
            })
        })
        .collect();
    found.sort_by_key(|process| process.pid);
    found
}

/// A part of a control group's path: `docker-ID.scope` of systemd, `docker` or Harbor's own name without it.
fn is_container(part: &str) -> bool {
    let scope = part.ends_with(".scope") && (part.starts_with("docker-") || part.starts_with("libpod-"));
    scope || part == "docker" || part == "kubexm-harbor"
}

fn sockets(folder: &std::path::Path) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|target| target.to_string_lossy().strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}
