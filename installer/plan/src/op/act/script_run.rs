//! A script of the user.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kind::ActKind;
use crate::kind::Needs;
use crate::touch::{Thing, Touch};

/// A script of cluster.yaml is run with bash, in the folder that has its materials. Done: our mark says that it
/// succeeded. A half-done one is undone by the user's own undo and run from its start, or stops the run where there is
/// none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptRun {
    /// `pre-1-0123456789ab`: where it is in cluster.yaml, and the start of a digest over its texts. Another text is another script.
    pub id: String,
    /// What it does, as cluster.yaml says.
    pub name: String,
    /// Folder of `run.sh`, of `undo.sh` where there is one, and of `files` with the materials.
    pub folder: String,
    /// Seconds that it may take, and its undo again.
    pub timeout_s: u64,
    /// Whether there is an undo.
    pub undo: bool,
}

impl ActKind for ScriptRun {
    fn title(&self) -> &'static str {
        "script of the user"
    }

    fn touches(&self) -> Vec<Touch> {
        vec![Touch::changes(Thing::Script(self.id.clone()))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { things: vec![Thing::Path(format!("{}/run.sh", self.folder))], ..Needs::nothing() }
    }
}

impl fmt::Display for ScriptRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act script {:?} of {} within {} s", self.name, self.folder, self.timeout_s)
    }
}
