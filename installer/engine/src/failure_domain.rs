//! Failure domains: hosts that the run may continue without. Pure.
//!
//! One bad worker of sixty must not unwind fifty-nine. As long as no more hosts fail than the operator allows, only what
//! belongs to the failed one is rolled back, and what waits for it only to settle continues without it. An undo that fails
//! there leaves that host as it is: the others are not held up by it, the report names what is left, and `resume` tries
//! the host again from where it is.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::Plan;

/// What a failure means for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// The run continues without the host.
    LeftOut,
    /// The run has failed.
    Fatal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its last steps finish.
    Draining,
    /// It is being rolled back.
    Undoing,
    /// Rolled back, or left as it is.
    Settled,
}

/// The hosts that were left out, and how many may be.
#[derive(Debug)]
pub(crate) struct Domains<'a> {
    optional: BTreeSet<&'a str>,
    max: usize,
    left_out: BTreeMap<&'a str, Stage>,
}

impl<'a> Domains<'a> {
    pub(crate) fn of(plan: &'a Plan, max: usize) -> Self {
        let optional = plan.hosts.iter().filter(|h| h.optional).map(|h| h.name.as_str()).collect();
        Self { optional, max, left_out: BTreeMap::new() }
    }

    /// A step of this domain failed.
    pub(crate) fn failed(&mut self, domain: &'a str) -> Judged {
        if self.left_out.contains_key(domain) {
            return Judged::LeftOut;
        }
        if !self.optional.contains(domain) || self.left_out.len() >= self.max {
            return Judged::Fatal;
        }
        self.left_out.insert(domain, Stage::Draining);
        Judged::LeftOut
    }

    /// The next host that can be rolled back: left out, and not busy any more.
    pub(crate) fn take_drained(&mut self, busy: impl Fn(&str) -> bool) -> Option<&'a str> {
        let (host, stage) = self.left_out.iter_mut().find(|(host, s)| **s == Stage::Draining && !busy(host))?;
        *stage = Stage::Undoing;
        Some(host)
    }

    pub(crate) fn settled(&mut self, host: &'a str) {
        self.left_out.insert(host, Stage::Settled);
    }

    pub(crate) fn is_left_out(&self, domain: &str) -> bool {
        self.left_out.contains_key(domain)
    }

    pub(crate) fn is_settled(&self, domain: &str) -> bool {
        self.left_out.get(domain) == Some(&Stage::Settled)
    }
}
