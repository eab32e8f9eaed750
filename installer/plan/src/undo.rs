//! How a step is rolled back. There is no default: a step without a choice does not compile.

use serde::{Deserialize, Serialize};

use crate::id::StepId;
use crate::op::Act;

/// What takes a step back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Undo {
    /// Every op restores the state it found, from the node's ledger.
    RestoreBefore,
    /// An action of its own.
    Act {
        /// Which.
        act: Act,
    },
    /// It dies with the thing another step made (a Kubernetes object, when its cluster is torn down).
    WithParent {
        /// That step.
        step: StepId,
    },
    /// It cannot be rolled back; shown before the operator confirms.
    Irreversible {
        /// Why not.
        why: String,
    },
    /// It only looks and changes nothing.
    Nothing,
}

impl std::fmt::Display for Undo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RestoreBefore => f.write_str("restore what was there"),
            Self::Act { act } => write!(f, "{act}"),
            Self::WithParent { step } => write!(f, "with {step}"),
            Self::Irreversible { why } => write!(f, "IRREVERSIBLE: {why}"),
            Self::Nothing => f.write_str("nothing to roll back"),
        }
    }
}
