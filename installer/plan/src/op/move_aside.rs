//! Moves the earlier content of state folders out of the way.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// Moves what these folders contained before kubexm to a folder next to them, or to a folder inside one that is a mount
/// point or a link ([`crate::state_folders::MOVED`]). Undo moves it back. A file system's `lost+found` is not moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveAside {
    /// Absolute; none is inside another.
    pub paths: Vec<String>,
}

/// The folders, in the op's order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MovedFolders {
    /// In the op's order.
    pub folders: Vec<MovedFolder>,
}

/// The observed state of one folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MovedFolder {
    /// Absolute.
    pub path: String,
    /// What it contained.
    pub was: AsideWas,
    /// When its entries were last changed; none if the folder does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<SystemTime>,
}

/// What a folder contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AsideWas {
    /// No file.
    Empty,
    /// Content that has to be moved, or the rest of it.
    Occupied,
    /// Its content was moved already; what is in it now is new.
    Moved,
}

impl OpKind for MoveAside {
    type State = MovedFolders;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        self.paths.iter().map(|path| ResourceChange::unknown(Resource::Before(path.clone()))).collect()
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::MadeFirst
    }
}

impl fmt::Display for MoveAside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what was in {} is moved aside", self.paths.join(" "))
    }
}

impl State for MovedFolders {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
