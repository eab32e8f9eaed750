//! Failure domains: hosts that the run may continue without. Pure.
//!
//! One failed worker of sixty must not roll back the other fifty-nine. If no more hosts fail than the operator allows,
//! only the steps of the failed host are rolled back, and steps that only wait for its end continue. If its undo fails,
//! that host is left as it is: it does not delay the others, the report names what is left, and `resume` continues with
//! it.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::Plan;

/// The effect of a failure on the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// The run continues without the host.
    LeftOut,
    /// The run has failed.
    Fatal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its running steps are being finished.
    Draining,
    /// It is being rolled back.
    Undoing,
    /// Rolled back, or left as it is.
    RolledBack,
}

/// The hosts that were left out, and how many are allowed.
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

    /// The next host to roll back: left out, with no running steps.
    pub(crate) fn take_drained(&mut self, busy: impl Fn(&str) -> bool) -> Option<&'a str> {
        let (host, stage) = self.left_out.iter_mut().find(|(host, s)| **s == Stage::Draining && !busy(host))?;
        *stage = Stage::Undoing;
        Some(host)
    }

    pub(crate) fn rolled_back(&mut self, host: &'a str) {
        self.left_out.insert(host, Stage::RolledBack);
    }

    pub(crate) fn is_left_out(&self, domain: &str) -> bool {
        self.left_out.contains_key(domain)
    }

    pub(crate) fn is_rolled_back(&self, domain: &str) -> bool {
        self.left_out.get(domain) == Some(&Stage::RolledBack)
    }
}
