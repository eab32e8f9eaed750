//! State folders that are not empty before kubexm uses them.

use kubexm_plan::facts::StateFolder;
use kubexm_plan::state_folders;

use crate::ops::move_aside;
use crate::{Machine, folder};

pub(super) fn look(machine: &Machine) -> Vec<StateFolder> {
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
    state_folders::all().into_iter().filter_map(look).collect()
}
