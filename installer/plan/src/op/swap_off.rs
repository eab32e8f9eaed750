//! No swap, now and at boot.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// No swap: runs swapoff and comments out lines of /etc/fstab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SwapOff {}

/// Active swap, and what would enable swap at the next boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Swaps {
    /// Active swap devices and files.
    pub devices: Vec<String>,
    /// Lines of fstab that enable swap.
    pub lines: Vec<String>,
    /// /etc/fstab.
    pub fstab: PathState,
    /// Units that must still be masked, with what is at the path of the mask.
    pub masks: Vec<PathState>,
    /// The configuration of zram-generator, if that would enable swap.
    pub zram: Option<PathState>,
}

impl OpKind for SwapOff {
    type State = Swaps;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![
            ResourceChange::unknown(Resource::Path("/etc/fstab".to_owned())),
            ResourceChange::sets(Resource::Swap, "off"),
        ]
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::RestoredAndMade
    }
}

impl fmt::Display for SwapOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no swap")
    }
}

impl State for Swaps {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        std::iter::once(&self.fstab).chain(&self.masks).chain(&self.zram).collect()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
