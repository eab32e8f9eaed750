//! How a step is rolled back. There is no default: a step without an undo does not compile.

use serde::{Deserialize, Serialize};

use crate::id::StepId;
use crate::op::Act;

/// The undo of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Undo {
    /// Every op restores the state that it found, from the node's ledger.
    RestoreBefore,
    /// An act.
    Act {
        /// The act.
        act: Act,
    },
    /// It is removed with the result of another step (a Kubernetes object, with its cluster).
    WithParent {
        /// The other step.
        step: StepId,
    },
    /// It cannot be rolled back; shown before the operator confirms.
    Irreversible {
        /// The reason.
        why: String,
    },
    /// The step changes nothing.
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
