//! Properties that every act has.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use crate::kind::{Needs, State};
use crate::path_state::PathState;
use crate::resource::ResourceChange;

/// The data of one act. Its execution is `Perform` of `kubexm_ops`, in a file of the same name. An act belongs to the
/// cluster and is rolled back by another act, which its step names.
pub trait ActKind: Display {
    /// Its title in the reviewed list (`docs/acts.md`).
    fn title(&self) -> &'static str;

    /// As [`crate::OpKind::resource_changes`].
    fn resource_changes(&self) -> Vec<ResourceChange>;

    /// As [`crate::OpKind::needs`].
    fn needs(&self) -> Needs<'_>;

    /// What it does besides.
    fn effect(&self) -> Effect<'_>;
}

/// The progress of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Progress {
    /// Nothing of it exists.
    NotBegun,
    /// It was interrupted and left something, or it is running right now.
    HalfDone,
    /// It has happened.
    Done,
    /// It had happened, and a part of its result was removed since, or kubexm's record of its end is missing.
    Damaged,
    /// What it would create exists, and kubexm did not create it.
    Foreign,
}

impl Progress {
    /// Whether the act's undo may remove the result: kubexm created it, and it did not exist before.
    pub const fn may_be_undone(self) -> bool {
        matches!(self, Self::NotBegun | Self::HalfDone)
    }
}

impl State for Progress {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
