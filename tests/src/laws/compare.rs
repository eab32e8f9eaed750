//! Two states of a fleet beside each other.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_engine::sim::Snapshot;

/// What differs, one line each, without the hosts that are left out of the comparison.
pub fn differences(found: &Snapshot, wanted: &Snapshot, without: &BTreeSet<String>) -> Vec<String> {
    let mut lines = Vec::new();
    let none = BTreeMap::new();
    for host in found.keys().chain(wanted.keys()).collect::<BTreeSet<_>>() {
        if without.contains(host) {
            continue;
        }
        let (here, there) = (found.get(host).unwrap_or(&none), wanted.get(host).unwrap_or(&none));
        for key in here.keys().chain(there.keys()).collect::<BTreeSet<_>>() {
            if here.get(key) != there.get(key) {
                lines.push(format!("{host}: {key} is {:?}, and was to be {:?}", here.get(key), there.get(key)));
            }
        }
    }
    lines
}

/// Refuses two states that differ.
pub fn same(found: &Snapshot, wanted: &Snapshot, after: &str) -> Result<(), String> {
    refuse(differences(found, wanted, &BTreeSet::new()), after)
}

/// Refuses when there is something to tell.
pub fn refuse(lines: Vec<String>, after: &str) -> Result<(), String> {
    if lines.is_empty() { Ok(()) } else { Err(format!("after {after}:\n  {}", lines.join("\n  "))) }
}
