//! A script of the user.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::ActKind;
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// Runs a script of cluster.yaml with bash, in the folder that contains its materials. Done: kubexm's marker records
/// its success. A half-done script is undone with the user's own undo and run again; if it has no undo, the run stops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptRun {
    /// `pre-1-0123456789ab`: its position in cluster.yaml, and the start of a digest of its texts. A script with
    /// changed texts is another script.
    pub id: String,
    /// Its description in cluster.yaml.
    pub name: String,
    /// Folder of `run.sh`, of `undo.sh` if there is an undo, and of `files` with the materials.
    pub folder: String,
    /// Timeout in seconds, for the script and for its undo.
    pub timeout_s: u64,
    /// Whether there is an undo.
    pub undo: bool,
}

impl ActKind for ScriptRun {
    fn title(&self) -> &'static str {
        "script of the user"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::Script(self.id.clone()))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { resources: vec![Resource::Path(format!("{}/run.sh", self.folder))], ..Needs::nothing() }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::LeavesMark { id: &self.id }
    }
}

impl fmt::Display for ScriptRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act script {:?} of {} within {} s", self.name, self.folder, self.timeout_s)
    }
}
