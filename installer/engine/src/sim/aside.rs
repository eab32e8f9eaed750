//! What state folders held before the cluster, on a simulated host.

use std::collections::BTreeMap;

use kubexm_plan::Found;
use kubexm_plan::op::MoveAside;
use serde_json::json;

use super::reset::is_below;
use super::undo::Keys;
use super::world::World;

/// Marks a key whose thing was moved.
const MOVED: &str = "before:";

/// Whether something of a folder was moved and is not back.
pub(super) fn is_away(state: &BTreeMap<String, String>, path: &String) -> bool {
    let moved = |key: &String| key.strip_prefix(MOVED).is_some_and(|key| is_below(key, std::slice::from_ref(path)));
    state.keys().any(moved)
}

impl World {
    /// The keys that are to be moved; none where that was done, since what lies there then came later.
    pub(super) fn observe_aside(&self, host: &str, aside: &MoveAside) -> Result<Found, String> {
        let here = &self.host(host)?.state;
        let (mut there, mut folders) = (BTreeMap::new(), Vec::new());
        for path in &aside.paths {
            let below = || here.iter().filter(|(key, _)| is_below(key, std::slice::from_ref(path)));
            if !is_away(here, path) && below().next().is_some() {
                there.extend(below());
                folders.push(json!({ "path": path, "was": "occupied" }));
            }
        }
        Ok(Found { satisfied: there.is_empty(), state: json!({ "host": there, "cluster": {}, "folders": folders }) })
    }

    pub(super) fn converge_aside(&mut self, host: &str, aside: &MoveAside) -> Result<(), String> {
        let found = self.observe_aside(host, aside)?;
        for (key, value) in super::undo::keys(&found, "host")? {
            self.remove(host, &key)?;
            self.restore_key(host, &format!("{MOVED}{key}"), &value.unwrap_or_default());
        }
        Ok(())
    }

    pub(super) fn restore_aside(&mut self, host: &str, keys: &Keys) -> Result<(), String> {
        for key in keys.keys() {
            let moved = format!("{MOVED}{key}");
            if let Some(value) = self.host(host)?.state.get(&moved).cloned() {
                if self.has(host, key) {
                    return Err(format!("{key} came since, and what was there before would replace it"));
                }
                self.remove(host, &moved)?;
                self.restore_key(host, key, &value);
            }
        }
        Ok(())
    }
}
