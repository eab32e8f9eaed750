//! Whose node this is (`/var/lib/kubexm/stamp.json`).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{AfterReset, Needs, OpKind, Scope, State};
use crate::place::Place;
use crate::touch::{Thing, Touch};
use crate::{ClusterId, Vouched};

/// Whose node this is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stamp {
    /// `metadata.name`.
    pub cluster: String,
    /// Which cluster of that name; none in plans of programs that made no ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ClusterId>,
    /// The bundle that is installed, and who vouches for it; none in plans of programs that did not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<Vouched>,
}

/// The stamp's place, and the cluster it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stamped {
    /// `/var/lib/kubexm/stamp.json`.
    pub place: Place,
    /// None without a stamp.
    pub cluster: Option<String>,
    /// None without a stamp, and in stamps of programs that made no ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ClusterId>,
    /// What the stamp says of the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<Vouched>,
}

impl OpKind for Stamp {
    type State = Stamped;

    fn touches(&self) -> Vec<Touch> {
        // Texts and numbers in a struct: there is nothing that could not be written.
        vec![Touch::sets(Thing::Stamp, serde_json::to_string(self).unwrap_or_default())]
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> Scope {
        Scope::End
    }

    fn after_reset(&self) -> AfterReset {
        AfterReset::Restored
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stamp of cluster {}", self.cluster)?;
        self.id.iter().try_for_each(|id| write!(f, ", id {id}"))
    }
}

impl State for Stamped {
    const SCHEMA: u32 = 2;

    fn places(&self) -> Vec<&Place> {
        vec![&self.place]
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
