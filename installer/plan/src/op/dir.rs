//! A directory.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{AfterReset, Needs, OpKind, Scope};
use crate::place::Place;
use crate::touch::Touch;

/// A directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dir {
    /// Absolute; parents are made with 0755.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
}

impl OpKind for Dir {
    type State = Place;

    fn touches(&self) -> Vec<Touch> {
        vec![Touch::file(&self.path, format!("dir {:04o}", self.mode)).shared()]
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> Scope {
        Scope::Host
    }

    fn after_reset(&self) -> AfterReset {
        AfterReset::Restored
    }
}

impl fmt::Display for Dir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "directory {} {:04o}", self.path, self.mode)
    }
}
