//! Sockets that listen, and whose they are.

use std::collections::BTreeMap;
use std::fs;

use kubexm_plan::facts::Listener;

use super::Ours;
use crate::{Machine, OpError, fsio};

/// A process, as far as anybody asks.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub pid: u32,
    pub name: String,
    /// Path of its program, as the process sees it.
    pub exe: Option<String>,
    /// Its control group belongs to kubelet.
    pub in_pod: bool,
    /// Inodes of its sockets.
    pub sockets: Vec<u64>,
}

/// Every process of /proc that can be read.
pub(super) fn processes(machine: &Machine) -> Vec<Process> {
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
                // A program that was replaced since is still the one at its path.
                exe: exe.map(|path| path.trim_end_matches(" (deleted)").to_owned()),
                in_pod: groups.contains("kubepods"),
                sockets: sockets(&folder.join("fd")),
            })
        })
        .collect();
    found.sort_by_key(|process| process.pid);
    found
}

fn sockets(folder: &std::path::Path) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|target| target.to_string_lossy().strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

/// One for each protocol, port and process.
pub(super) fn look(machine: &Machine, processes: &[Process], ours: &Ours) -> Result<Vec<Listener>, OpError> {
    let owners: BTreeMap<u64, &Process> =
        processes.iter().flat_map(|process| process.sockets.iter().map(move |inode| (*inode, process))).collect();
    let mut found = Vec::new();
    // States of tcp_states.h: LISTEN is 0A; a bound UDP socket without a peer shows CLOSE, 07.
    for (protocol, files, state) in [("tcp", ["tcp", "tcp6"], "0A"), ("udp", ["udp", "udp6"], "07")] {
        for file in files {
            let text = fsio::read_text(&machine.path(format!("/proc/net/{file}")))?.unwrap_or_default();
            for (port, inode) in text.lines().skip(1).filter_map(|line| socket(line, state)) {
                let owner = owners.get(&inode);
                found.push(Listener {
                    protocol: protocol.to_owned(),
                    port,
                    process: owner.map(|process| process.name.clone()),
                    pid: owner.map(|process| process.pid),
                    ours: owner.is_some_and(|process| ours.process(process)),
                });
            }
        }
    }
    found.sort_by(|a, b| (&a.protocol, a.port, a.pid).cmp(&(&b.protocol, b.port, b.pid)));
    found.dedup();
    Ok(found)
}

/// Port and inode of a line of /proc/net/{tcp,udp}* in this state (proc_pid_net(5)).
fn socket(line: &str, state: &str) -> Option<(u16, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if fields.get(3) != Some(&state) {
        return None;
    }
    let port = u16::from_str_radix(fields.get(1)?.rsplit(':').next()?, 16).ok()?;
    Some((port, fields.get(9)?.parse().ok()?))
}
