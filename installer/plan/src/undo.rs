//! How a step is taken back. There is no default: a step without a choice does not compile.

use serde::{Deserialize, Serialize};

use crate::op::Act;
use crate::step::StepId;

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
    /// It cannot be taken back; shown before the operator says yes.
    Irreversible {
        /// Why not.
        why: String,
    },
    /// It only looks and changes nothing.
    Nothing,
}
