//! Collects what a host could not observe.

use kubexm_plan::cluster_facts::Gap;

use crate::OpError;

/// What a host could not observe.
pub(super) struct Gaps<'a> {
    host: &'a str,
    pub(super) found: Vec<Gap>,
}

impl<'a> Gaps<'a> {
    pub(super) const fn of(host: &'a str) -> Self {
        Self { host, found: Vec::new() }
    }

    pub(super) fn add(&mut self, what: &str, why: impl Into<String>) {
        self.found.push(Gap { host: self.host.to_owned(), what: what.to_owned(), why: why.into() });
    }

    pub(super) fn note<T>(&mut self, what: &str, seen: Result<T, OpError>) -> Option<T> {
        seen.map_err(|error| self.add(what, error.full())).ok()
    }
}
