//! What was in state folders before is moved out of their way.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::kind::{AfterReset, Needs, OpKind, Scope, State};
use crate::place::Place;
use crate::touch::{Thing, Touch};

/// What these folders held before kubexm lies beside them, or inside one that is a mount point or a link
/// ([`crate::state_folders::MOVED`]). Undo moves it back. A file system's `lost+found` stays where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveAside {
    /// Absolute; none lies in another.
    pub paths: Vec<String>,
}

/// The folders, in the op's order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MovedFolders {
    /// In that order.
    pub folders: Vec<MovedFolder>,
}

/// How one folder was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MovedFolder {
    /// Absolute.
    pub path: String,
    /// What was in it.
    pub was: AsideWas,
    /// When its entries were last changed; none where it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<SystemTime>,
}

/// What was in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AsideWas {
    /// No file.
    Empty,
    /// Something that has to move, or the rest of it.
    Occupied,
    /// It was moved already: what is in the folder came since.
    Moved,
}

impl OpKind for MoveAside {
    type State = MovedFolders;

    fn touches(&self) -> Vec<Touch> {
        self.paths.iter().map(|path| Touch::changes(Thing::Before(path.clone()))).collect()
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> Scope {
        Scope::Host
    }

    fn after_reset(&self) -> AfterReset {
        AfterReset::MadeFirst
    }
}

impl fmt::Display for MoveAside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what was in {} is moved aside", self.paths.join(" "))
    }
}

impl State for MovedFolders {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&Place> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
