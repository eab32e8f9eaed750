//! Properties that every act has.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, State};
use crate::place::Place;
use crate::touch::Touch;

/// The data of one act. How it is seen and done is `kubexm_ops`' `Perform`, in a file of the same name. An act is of the
/// cluster, and is rolled back by another act, which its step names.
pub trait ActKind: Display {
    /// What the reviewed list (`docs/acts.md`) calls it.
    fn title(&self) -> &'static str;

    /// As [`crate::OpKind::touches`].
    fn touches(&self) -> Vec<Touch>;

    /// As [`crate::OpKind::needs`].
    fn needs(&self) -> Needs<'_>;
}

/// How far an act has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Progress {
    /// Nothing of it is there.
    NotBegun,
    /// A kill in the middle left something, or it is running right now.
    HalfDone,
    /// It has happened.
    Done,
    /// It had happened, and something took a part of it away since.
    Damaged,
    /// What it would make is there, and not from us.
    Foreign,
}

impl Progress {
    /// Whether the act's undo may remove what is there: it is ours, and was not there before.
    pub const fn may_be_undone(self) -> bool {
        matches!(self, Self::NotBegun | Self::HalfDone)
    }
}

impl State for Progress {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&Place> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
