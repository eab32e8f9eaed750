//! The undo of a script of the user.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::{ActKind, Review};
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

    fn review(&self) -> Review {
        Review {
            not_a_state: "Only its author knows what a script does.",
            done: "There is no mark of the script: it was never started, or was undone.",
            half_done: "The undo is run again: it must tolerate that. A script that still runs is stopped first.",
            rollback: "It is itself a rollback. The next run runs the script from its start.",
        }
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
