//! The undo of a script of the user.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::ActKind;
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// Undoes what a script did or started to do, with the user's own `undo`. Done: according to kubexm's marker, the
/// script was not started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptUndo {
    /// As in [`super::ScriptRun`].
    pub id: String,
    /// The script's description in cluster.yaml.
    pub name: String,
    /// Folder of the script.
    pub folder: String,
    /// Timeout in seconds.
    pub timeout_s: u64,
}

impl ActKind for ScriptUndo {
    fn title(&self) -> &'static str {
        "undo of a script of the user"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::Script(self.id.clone()))]
    }

    /// A script whose files were not written was not started, so they are not needed.
    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn effect(&self) -> Effect<'_> {
        Effect::RemovesMark { id: &self.id }
    }
}

impl fmt::Display for ScriptUndo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act undo of script {:?} within {} s", self.name, self.timeout_s)
    }
}
