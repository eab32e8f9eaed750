//! The undo of a script of the user.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kind::ActKind;
use crate::kind::Needs;
use crate::touch::{Thing, Touch};

/// What a script did, or began to do, is undone by the user's own `undo`. Done: the script was not begun, as far as our mark says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptUndo {
    /// As of [`super::ScriptRun`].
    pub id: String,
    /// What the script does, as cluster.yaml says.
    pub name: String,
    /// Folder of the script.
    pub folder: String,
    /// Seconds that it may take.
    pub timeout_s: u64,
}

impl ActKind for ScriptUndo {
    fn title(&self) -> &'static str {
        "undo of a script of the user"
    }

    fn touches(&self) -> Vec<Touch> {
        vec![Touch::changes(Thing::Script(self.id.clone()))]
    }

    /// A script whose files never came was not begun.
    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }
}

impl fmt::Display for ScriptUndo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act undo of script {:?} within {} s", self.name, self.timeout_s)
    }
}
