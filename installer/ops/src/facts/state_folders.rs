//! State folders that are not empty before kubexm uses them.

use kubexm_plan::facts::StateFolder;
use kubexm_plan::state_folders;

use crate::ops::move_aside;
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
    let foreign = own_state::foreign(machine)?;
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
