//! State folders that are not empty before kubexm uses them.

use kubexm_plan::facts::StateFolder;
use kubexm_plan::op::SNAPSHOTS;
use kubexm_plan::state_folders;

use crate::ops::move_aside;
use crate::teardown::mounts;
use crate::{Machine, OpError, folder, own_state, paths};

/// With kubexm's own folder, if somebody else has put something there.
pub(super) fn look(machine: &Machine, folders: &[String]) -> Result<Vec<StateFolder>, OpError> {
    let look = |path: &str| {
        let content = folder::content(machine, path, StateFolder::MOST);
        let moved = move_aside::moved(machine, path);
        (content.files > 0 || moved.is_some()).then(|| StateFolder {
            path: path.to_owned(),
            files: content.files,
            first: content.first,
            moved,
        })
    };
    let all = state_folders::all().into_iter().chain(folders.iter().map(String::as_str));
    let mut found: Vec<StateFolder> = all.filter_map(look).collect();
    let mut foreign = own_state::foreign(machine)?;
    foreign.retain(|path| path != SNAPSHOTS || !holds_snapshots_alone(machine));
    if !foreign.is_empty() {
        let name = |path: &String| path.rsplit('/').next().unwrap_or(path).to_owned();
        found.push(StateFolder {
            path: paths::STATE.to_owned(),
            files: foreign.len() as u64,
            first: foreign.iter().take(4).map(name).collect(),
            moved: None,
        });
    }
    Ok(found)
}

/// Whether the folder of snapshots has only what upgrades of an earlier cluster took before they began: they are the operator's, no reset
/// removes them, and no cluster uses them.
fn holds_snapshots_alone(machine: &Machine) -> bool {
    let is_one = |path: &std::path::PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("before-") && name.ends_with(".db")
    };
    mounts::entries(&machine.path(SNAPSHOTS)).is_ok_and(|all| all.iter().all(is_one))
}
