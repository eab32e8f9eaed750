//! Listening sockets and their processes.

use std::collections::BTreeMap;

use kubexm_plan::facts::Listener;

use super::ours::Ours;
use super::processes::Process;
use crate::{Machine, OpError, fsio};

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
