//! No swap, now and at boot.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{AfterReset, Needs, OpKind, Scope, State};
use crate::place::Place;
use crate::touch::{Thing, Touch};

/// No swap: swapoff, and lines of /etc/fstab commented with our mark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SwapOff {}

/// What swaps, and what would at the next boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Swaps {
    /// Devices and files that swap.
    pub devices: Vec<String>,
    /// Lines of fstab that bring swap back.
    pub lines: Vec<String>,
    /// /etc/fstab.
    pub fstab: Place,
    /// Masks that are still to be made, and what is in their places.
    pub masks: Vec<Place>,
    /// When zram-generator would make swap.
    pub zram: Option<Place>,
}

impl OpKind for SwapOff {
    type State = Swaps;

    fn touches(&self) -> Vec<Touch> {
        vec![Touch::changes(Thing::Path("/etc/fstab".to_owned())), Touch::sets(Thing::Swap, "off")]
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> Scope {
        Scope::Host
    }

    fn after_reset(&self) -> AfterReset {
        AfterReset::RestoredAndMade
    }
}

impl fmt::Display for SwapOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no swap")
    }
}

impl State for Swaps {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&Place> {
        std::iter::once(&self.fstab).chain(&self.masks).chain(&self.zram).collect()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
