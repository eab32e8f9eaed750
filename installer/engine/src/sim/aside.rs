//! `MoveAside` on a simulated host: content of state folders from before the cluster.

use std::collections::BTreeMap;

use kubexm_plan::ObservedState;
use kubexm_plan::op::{AsideWas, MoveAside, MovedFolder, MovedFolders};

use super::keys::is_below;
use super::world::World;

/// Prefix of the key of something that was moved aside.
const MOVED: &str = "before:";

/// Whether content of a folder was moved aside and has not been moved back.
pub(super) fn is_away(state: &BTreeMap<String, String>, path: &String) -> bool {
    state.keys().any(|key| moved_from(key, path).is_some())
}

/// The original key of something that was moved out of a folder.
fn moved_from<'a>(key: &'a str, path: &String) -> Option<&'a str> {
    key.strip_prefix(MOVED).filter(|key| is_below(key, std::slice::from_ref(path)))
}

impl World {
    /// A folder is occupied if it has content to move. Content of a folder that was already moved was created later.
    pub(super) fn observe_aside(&self, host: &str, aside: &MoveAside) -> Result<ObservedState, String> {
        let here = &self.host(host)?.state;
        let look = |path: &String| {
            let was = if is_away(here, path) {
                AsideWas::Moved
            } else if here.keys().any(|key| is_below(key, std::slice::from_ref(path))) {
                AsideWas::Occupied
            } else {
                AsideWas::Empty
            };
            MovedFolder { path: path.clone(), was, modified: None }
        };
        let folders = MovedFolders { folders: aside.paths.iter().map(look).collect() };
        let satisfied = folders.folders.iter().all(|folder| folder.was != AsideWas::Occupied);
        ObservedState::new::<MoveAside>(&folders, satisfied).map_err(|error| error.to_string())
    }

    pub(super) fn converge_aside(&mut self, host: &str, aside: &MoveAside) -> Result<(), String> {
        for path in &aside.paths {
            if is_away(&self.host(host)?.state, path) {
                continue;
            }
            let state = self.host(host)?.state.iter();
            let there = state.filter(|(key, _)| is_below(key, std::slice::from_ref(path)));
            let there: Vec<(String, String)> = there.map(|(key, value)| (key.clone(), value.clone())).collect();
            for (key, value) in there {
                self.remove(host, &key)?;
                self.restore_key(host, &format!("{MOVED}{key}"), &value);
            }
        }
        Ok(())
    }

    pub(super) fn restore_aside(&mut self, host: &str, found: &ObservedState) -> Result<(), String> {
        for path in occupied(found)? {
            let state = self.host(host)?.state.iter();
            let moved = state.filter_map(|(key, value)| Some((moved_from(key, &path)?.to_owned(), value.clone())));
            for (key, value) in moved.collect::<Vec<_>>() {
                if self.has(host, &key) {
                    return Err(format!("{key} was created since, and restoring the earlier content would replace it"));
                }
                self.remove(host, &format!("{MOVED}{key}"))?;
                self.restore_key(host, &key, &value);
            }
        }
        Ok(())
    }
}

/// Folders whose content was moved aside.
pub(super) fn occupied(found: &ObservedState) -> Result<Vec<String>, String> {
    let folders = found.state::<MoveAside>().map_err(|error| error.to_string())?.folders;
    let occupied = folders.into_iter().filter(|folder| folder.was == AsideWas::Occupied);
    Ok(occupied.map(|folder| folder.path).collect())
}
