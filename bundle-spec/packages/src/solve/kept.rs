//! What the model for the SAT solver keeps, each value once: a relation may be the text of as many sets as there are packages.

use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

use resolvo::{NameId, SolvableId};

use super::formula::Unfit;
use crate::model::Constraint;

/// A relation as messages show it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Text {
    /// `libwrap0 (>= 7.6)`; of what a package cannot stand `conflicts with exim4`.
    pub(super) words: Rc<str>,
    pub(super) about: About,
}

/// What a relation is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum About {
    /// One name.
    Name(Box<str>),
    /// One name, and what is asked of it.
    One(Rc<Constraint>),
    /// Several names.
    Several,
    /// Nothing that the solver is given.
    Unfit(Unfit),
}

impl Text {
    pub(super) fn of(words: Box<str>, about: About) -> Self {
        Self { words: words.into(), about }
    }

    pub(super) fn unfit(self, why: Unfit) -> Self {
        Self { about: About::Unfit(why), ..self }
    }
}

/// One of the model's texts: a relation of one package may be that of as many sets as there are packages.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TextId(pub(super) u32);

/// Values by the order in which they came, each once in memory.
pub(super) struct Interned<T> {
    pub(super) values: Vec<Rc<T>>,
    ids: HashMap<Rc<T>, u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { values: Vec::new(), ids: HashMap::new() }
    }
}

impl<T: Eq + Hash> Interned<T> {
    /// Its id, and whether it is new.
    #[expect(clippy::cast_possible_truncation, reason = "fewer than packages times relations that were looked at")]
    pub(super) fn id(&mut self, value: T) -> (u32, bool) {
        let before = self.values.len();
        let id = *self.ids.entry(Rc::new(value)).or_insert_with_key(|value| {
            self.values.push(Rc::clone(value));
            before as u32
        });
        (id, self.values.len() > before)
    }
}

/// Versions of each name, in the order in which the names came.
#[derive(Default)]
pub(super) struct ByName {
    pub(super) versions: Vec<(NameId, Vec<SolvableId>)>,
    places: HashMap<NameId, usize>,
}

impl ByName {
    pub(super) fn push(&mut self, name: NameId, version: SolvableId) {
        let at = *self.places.entry(name).or_insert(self.versions.len());
        match self.versions.get_mut(at) {
            Some((_, versions)) => versions.push(version),
            None => self.versions.push((name, vec![version])),
        }
    }
}
