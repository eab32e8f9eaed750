//! The managed block of /etc/hosts without deleted hosts.

use std::collections::HashSet;

use kubexm_plan::Op;
use kubexm_plan::ledger::{Record, not_rolled_back};
use kubexm_plan::op::HostsBlock;

/// The block that a host has, according to its ledger.
pub(super) fn newest(ledger: &[Record]) -> Option<HostsBlock> {
    let ops = not_rolled_back(ledger.iter()).flat_map(|record| &record.ops);
    let blocks = ops.filter_map(|op| if let Op::HostsBlock(block) = op { Some(block) } else { None });
    blocks.last().cloned()
}

/// The lines without the names of deleted hosts, and without their addresses for the control plane's name. Lines for
/// other names, such as those of `extra.hosts`, stay.
pub(super) fn without(lines: &[String], gone: &[&str], control_plane: &str) -> Vec<String> {
    let parts = |line: &String| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.collect::<Vec<String>>()))
    };
    let is_gone = |name: &String| gone.contains(&name.as_str());
    // Looked up for each line: a ledger, which the host reports, may have millions of them.
    let addresses: HashSet<String> = lines
        .iter()
        .filter_map(parts)
        .filter(|(_, names)| names.iter().any(is_gone))
        .map(|(address, _)| address)
        .collect();
    let kept = lines.iter().filter_map(|line| {
        let Some((address, names)) = parts(line) else { return Some(line.clone()) };
        let leads_there = |name: &String| name == control_plane && addresses.contains(&address);
        let kept: Vec<&String> = names.iter().filter(|name| !is_gone(name) && !leads_there(name)).collect();
        match kept.len() {
            0 => None,
            count if count == names.len() => Some(line.clone()),
            _ => Some(kept.into_iter().fold(address, |line, name| format!("{line} {name}"))),
        }
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_control_plane_keeps_only_addresses_of_hosts_that_stay() {
        let lines = [
            "10.0.0.11 node1",
            "10.0.0.12 node2",
            "10.0.0.13 node3 node3.old",
            "10.0.0.11 lb.demo.internal",
            "10.0.0.12 lb.demo.internal",
            "10.0.0.12 git.example.org",
        ]
        .map(str::to_owned);
        let wanted =
            ["10.0.0.11 node1", "10.0.0.13 node3.old", "10.0.0.11 lb.demo.internal", "10.0.0.12 git.example.org"];
        assert_eq!(without(&lines, &["node2", "node3"], "lb.demo.internal"), wanted);
        assert_eq!(without(&lines, &["node9"], "lb.demo.internal"), lines);
    }

    #[test]
    fn a_block_of_a_hundred_thousand_lines_keeps_nobody_waiting() {
        let gone = (0..60_000).map(|at| format!("10.{at} node2"));
        let lines: Vec<String> = gone.chain((0..60_000).map(|at| format!("11.{at} lb"))).collect();
        // Each address was compared with each, for minutes.
        assert_eq!(without(&lines, &["node2"], "lb").len(), 60_000);
    }
}
