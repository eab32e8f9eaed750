//! Properties of an op kind that follow from its data. Nothing has a default: a kind that misses one does not compile.

use std::fmt::Display;

use kubexm_spec::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::place::Place;
use crate::slot::SlotName;
use crate::touch::{Thing, Touch};

/// The data of one op kind. How it is done on a machine is `kubexm_ops::Converge`, in a file of the same name.
pub trait OpKind: Display + Serialize + DeserializeOwned {
    /// What is found of it before a change. It lives in journals and in the ledgers of nodes, for years.
    type State: State;

    /// What it changes on its host or in the cluster, and what that is afterwards.
    fn touches(&self) -> Vec<Touch>;

    /// What it is given besides what it says itself, and what must be there before it.
    fn needs(&self) -> Needs<'_>;

    /// What removes it when the cluster is removed.
    fn scope(&self) -> Scope;

    /// How it comes back when a reset that took it away is rolled back.
    fn after_reset(&self) -> AfterReset;
}

/// What an op kind finds: digests and modes, never secrets.
///
/// When its shape changes, the number grows and reading takes all older shapes as well: nodes have them.
pub trait State: Serialize + DeserializeOwned {
    /// Version of the shape that is written.
    const SCHEMA: u32;

    /// Every place in it: files that a reset compares and restores.
    fn places(&self) -> Vec<&Place>;

    /// Whether what is no file is as it was `then`; none when it is by whether the op holds.
    fn is_back(&self, then: &Self) -> Option<bool>;
}

impl State for Place {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&Place> {
        vec![self]
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}

/// Any op, for what is made of ops.
pub trait AnyOp: Display {
    /// As [`OpKind::touches`].
    fn all_touches(&self) -> Vec<Touch>;
}

/// What an op is given, and what must be there before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs<'a> {
    /// Slots whose values it gets.
    pub slots: &'a [SlotName],
    /// The text of the plan that it names. With slots, the text has their placeholders ([`SlotName::placeholder`]).
    pub text: Option<Digest>,
    /// Blobs of the node's content store.
    pub blobs: Vec<Digest>,
    /// Units that run, files, modules, the cluster.
    pub things: Vec<Thing>,
}

impl Needs<'_> {
    /// It needs nothing.
    pub fn nothing() -> Self {
        Self::default()
    }
}

/// What removes an op's result when the cluster is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// It is of the host: what was found before it comes back.
    Host,
    /// It is in the cluster, or in the data of the cluster's runtime, and goes with them.
    Cluster,
    /// It is ours (the store, the stamp), and goes in the last step.
    End,
}

/// How what an op made comes back, when the reset that took it away is rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterReset {
    /// What the reset found is restored, and that is all of it.
    Restored,
    /// That is restored, and an op that held is made anew: the kernel or a service has a part of it in no file.
    RestoredAndMade,
    /// It is made before anything else is restored, whether it held or not: it was out of the way of what comes back.
    MadeFirst,
    /// An op that held is made anew: its files are blobs of the store, of which no copies are kept.
    Made,
}
