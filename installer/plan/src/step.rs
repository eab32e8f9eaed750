//! A step: a few ops that must hold together on one host.

use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use crate::id::StepId;
use crate::op::{Op, Probe};
use crate::undo::Undo;

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Unique.
    pub id: StepId,
    /// Host it runs on.
    pub host: String,
    /// For people, in the imperative: "Configure containerd".
    pub title: String,
    /// Steps that must have succeeded before.
    pub after: Vec<StepId>,
    /// Steps that must have finished before, whether they hold or not: of a host that may be left out
    /// ([`crate::PlanHost::optional`]), which then has been rolled back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settled: Vec<StepId>,
    /// Host whose failure a failure of this step is, when that is not the one it runs on: a control plane labels a
    /// worker's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// What must hold, in this order.
    pub ops: Vec<Op>,
    /// Polled after converge until it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<TimedProbe>,
    /// Seconds for all of it, the probe included.
    pub timeout_s: u64,
    /// Further tries after a failure, with backoff.
    pub retries: u32,
    /// How it is rolled back.
    pub undo: Undo,
}

/// Further tries of a step that takes from another host what can be taken again: with the engine's pauses between them a
/// network that is away for 90 s is outlasted.
pub const OVER_NETWORK: u32 = 6;

/// A probe and how long it may take to hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimedProbe {
    /// What is looked at.
    pub probe: Probe,
    /// Seconds.
    pub within_s: u64,
}

/// State of a builder whose undo has not been chosen.
#[derive(Debug)]
pub enum NoUndo {}
/// State of a builder that can be built.
#[derive(Debug)]
pub enum HasUndo {}

/// Builds a [`Step`]; `build` exists only once `undo` was called.
#[must_use]
#[derive(Debug)]
pub struct StepBuilder<State> {
    step: Step,
    state: PhantomData<State>,
}

impl Step {
    /// Begins a step. `name` is `<module>.<step>`.
    pub fn on(host: &str, name: &str, title: &str) -> StepBuilder<NoUndo> {
        StepBuilder {
            step: Self {
                id: StepId(format!("{host}/{name}")),
                host: host.to_owned(),
                title: title.to_owned(),
                after: Vec::new(),
                settled: Vec::new(),
                domain: None,
                ops: Vec::new(),
                probe: None,
                timeout_s: 120,
                retries: 0,
                undo: Undo::Nothing,
            },
            state: PhantomData,
        }
    }

    /// The failure domain: the host that a failure of this step is a failure of.
    pub fn domain(&self) -> &str {
        self.domain.as_deref().unwrap_or(&self.host)
    }
}

impl<State> StepBuilder<State> {
    /// One more thing that must hold.
    pub fn ensure(mut self, op: impl Into<Op>) -> Self {
        self.step.ops.push(op.into());
        self
    }

    /// More things that must hold, in this order.
    pub fn ensure_all<O: Into<Op>>(mut self, ops: impl IntoIterator<Item = O>) -> Self {
        self.step.ops.extend(ops.into_iter().map(Into::into));
        self
    }

    /// Must come after this step.
    pub fn after(mut self, id: &StepId) -> Self {
        self.step.after.push(id.clone());
        self
    }

    /// Must come after this step has finished, whether it holds or not.
    pub fn settled(mut self, id: &StepId) -> Self {
        self.step.settled.push(id.clone());
        self
    }

    /// A failure of this step is a failure of that host.
    pub fn domain(mut self, host: &str) -> Self {
        self.step.domain = (host != self.step.host).then(|| host.to_owned());
        self
    }

    /// Polled after converge until it holds.
    pub fn probe(mut self, probe: Probe, within_s: u64) -> Self {
        self.step.probe = Some(TimedProbe { probe, within_s });
        self
    }

    /// Seconds for the whole step.
    pub fn timeout_s(mut self, seconds: u64) -> Self {
        self.step.timeout_s = seconds;
        self
    }

    /// Further tries after a failure.
    pub fn retries(mut self, retries: u32) -> Self {
        self.step.retries = retries;
        self
    }

    /// How the step is rolled back.
    pub fn undo(mut self, undo: Undo) -> StepBuilder<HasUndo> {
        self.step.undo = undo;
        StepBuilder { step: self.step, state: PhantomData }
    }
}

impl StepBuilder<HasUndo> {
    /// The step.
    pub fn build(self) -> Step {
        self.step
    }
}
