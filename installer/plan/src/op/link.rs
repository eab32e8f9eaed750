//! A symbolic link.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{AfterReset, Needs, OpKind, Scope};
use crate::place::Place;
use crate::touch::Touch;

/// A symbolic link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Link {
    /// Absolute path of the link.
    pub path: String,
    /// The link's target.
    pub target: String,
}

impl OpKind for Link {
    type State = Place;

    fn touches(&self) -> Vec<Touch> {
        vec![Touch::file(&self.path, format!("link {}", self.target))]
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

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {} to {}", self.path, self.target)
    }
}
