//! Properties of an op kind that follow from its data. Nothing has a default: a kind that omits one does not compile.

use std::fmt::Display;

use kubexm_spec::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};
use crate::slot::SlotName;

/// The data of one op kind. Its execution on a machine is `kubexm_ops::Converge`, in a file of the same name.
pub trait OpKind: Display + Serialize + DeserializeOwned {
    /// The state that is observed before a change. It is kept in journals and in nodes' ledgers for years.
    type State: State;

    /// What it changes on its host or in the cluster, with the value afterwards.
    fn resource_changes(&self) -> Vec<ResourceChange>;

    /// Slots, texts and blobs that the op uses, and what must exist before it runs.
    fn needs(&self) -> Needs<'_>;

    /// What removes the op's result when the cluster is removed.
    fn scope(&self) -> RemovalScope;

    /// How the op's result comes back when the reset that removed it is rolled back.
    fn reset_rollback(&self) -> ResetRollback;
}

/// The observed state of an op kind: digests and modes, never secrets.
///
/// When its format changes, [`State::SCHEMA`] is increased, and all older versions, which nodes still have, must be
/// read.
pub trait State: Serialize + DeserializeOwned {
    /// Version of the format that is written.
    const SCHEMA: u32;

    /// Every place in it: the files that a reset compares and restores.
    fn places(&self) -> Vec<&PathState>;

    /// Whether the parts that are not files are as they were `then`; none if that is decided by whether the op is
    /// satisfied.
    fn is_back(&self, then: &Self) -> Option<bool>;
}

impl State for PathState {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        vec![self]
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}

/// Any op, for types that contain ops.
pub trait AnyOp: Display {
    /// As [`OpKind::resource_changes`].
    fn all_touches(&self) -> Vec<ResourceChange>;
}

/// What an op uses, and what must exist before it runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs<'a> {
    /// Slots whose values it receives.
    pub slots: &'a [SlotName],
    /// A text of the plan. If the op has slots, the text contains their placeholders ([`SlotName::placeholder`]).
    pub text: Option<Digest>,
    /// Blobs of the node's content store.
    pub blobs: Vec<Digest>,
    /// Running units, files, modules, the cluster.
    pub resources: Vec<Resource>,
}

impl Needs<'_> {
    /// Nothing is needed.
    pub fn nothing() -> Self {
        Self::default()
    }
}

/// What removes an op's result when the cluster is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalScope {
    /// A rollback of the op: it changes the host, and the state that was found before it is restored.
    Host,
    /// The removal of the cluster, or of its runtime's data, which contains it.
    Cluster,
    /// The last step of the reset: it is kubexm's own (the store, the stamp).
    End,
}

/// How an op's result comes back when the reset that removed it is rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetRollback {
    /// The state that the reset found is restored; that is sufficient.
    Restored,
    /// The state is restored, and an op that was satisfied is converged again: the kernel or a service has a part of
    /// the result that is in no file.
    RestoredAndMade,
    /// Converged before anything else is restored, satisfied or not: it makes room for what is restored.
    MadeFirst,
    /// An op that was satisfied is converged again: its files come from blobs of the store, so no copies are kept.
    Made,
}
