//! A step: a few ops that belong together on one host.

use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use crate::cluster_id::ClusterId;
use crate::id::StepId;
use crate::op::{Op, Probe};
use crate::undo::Undo;

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Unique in the plan.
    pub id: StepId,
    /// Host it runs on.
    pub host: String,
    /// For people, in the imperative: "Configure containerd".
    pub title: String,
    /// Steps that must have succeeded before.
    pub after: Vec<StepId>,
    /// Steps that must have finished before, successfully or not: used for steps of optional hosts
    /// ([`crate::PlanHost::optional`]), which are rolled back if they fail.
    #[serde(rename = "settled", default, skip_serializing_if = "Vec::is_empty")]
    pub after_end: Vec<StepId>,
    /// The host that has failed if this step fails, if it is not the one that the step runs on: a control plane labels
    /// a worker's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The desired states, in this order.
    pub ops: Vec<Op>,
    /// A condition that is polled after converge until it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<TimedProbe>,
    /// Timeout of the whole step in seconds, including the probe.
    pub timeout_s: u64,
    /// Number of further attempts after a failure, with backoff.
    pub retries: u32,
    /// How it is rolled back.
    pub undo: Undo,
    /// The adopted cluster that it upgrades: hosts that were adopted do no step of anything else than adoptions, renewals of certificates
    /// and upgrades of just this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_adopted: Option<ClusterId>,
}

/// Retries of a step that fetches from another host: together with the engine's pauses they outlast a network outage of
/// 90 s.
pub const OVER_NETWORK: u32 = 6;

/// A probe and its time limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimedProbe {
    /// The condition.
    pub probe: Probe,
    /// Time limit in seconds.
    pub within_s: u64,
}

/// State of a builder without an undo.
#[derive(Debug)]
pub enum NoUndo {}
/// State of a builder with an undo.
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
    /// Starts a step. `name` is `<module>.<step>`.
    pub fn on(host: &str, name: &str, title: &str) -> StepBuilder<NoUndo> {
        StepBuilder {
            step: Self {
                id: StepId(format!("{host}/{name}")),
                host: host.to_owned(),
                title: title.to_owned(),
                after: Vec::new(),
                after_end: Vec::new(),
                domain: None,
                ops: Vec::new(),
                probe: None,
                timeout_s: 120,
                retries: 0,
                undo: Undo::Nothing,
                of_adopted: None,
            },
            state: PhantomData,
        }
    }

    /// The failure domain: the host that has failed if this step fails.
    pub fn domain(&self) -> &str {
        self.domain.as_deref().unwrap_or(&self.host)
    }

    /// Whether all that it does is to install into the cluster, where most of its time is spent waiting.
    pub fn is_into_cluster(&self) -> bool {
        let is_it = |op: &Op| matches!(op, Op::HelmRelease(_) | Op::Manifests(_));
        self.probe.is_none() && !self.ops.is_empty() && self.ops.iter().all(is_it)
    }
}

impl<State> StepBuilder<State> {
    /// Adds a desired state.
    pub fn ensure(mut self, op: impl Into<Op>) -> Self {
        self.step.ops.push(op.into());
        self
    }

    /// Adds desired states, in this order.
    pub fn ensure_all<O: Into<Op>>(mut self, ops: impl IntoIterator<Item = O>) -> Self {
        self.step.ops.extend(ops.into_iter().map(Into::into));
        self
    }

    /// Runs after this step has succeeded.
    pub fn after(mut self, id: &StepId) -> Self {
        self.step.after.push(id.clone());
        self
    }

    /// Runs after this step has finished, successfully or not.
    pub fn after_end(mut self, id: &StepId) -> Self {
        self.step.after_end.push(id.clone());
        self
    }

    /// Sets the failure domain.
    pub fn domain(mut self, host: &str) -> Self {
        self.step.domain = (host != self.step.host).then(|| host.to_owned());
        self
    }

    /// Sets a condition that is polled after converge until it is true.
    pub fn probe(mut self, probe: Probe, within_s: u64) -> Self {
        self.step.probe = Some(TimedProbe { probe, within_s });
        self
    }

    /// Sets the timeout of the whole step in seconds.
    pub fn timeout_s(mut self, seconds: u64) -> Self {
        self.step.timeout_s = seconds;
        self
    }

    /// Sets the number of further attempts after a failure.
    pub fn retries(mut self, retries: u32) -> Self {
        self.step.retries = retries;
        self
    }

    /// Sets how the step is rolled back.
    pub fn undo(mut self, undo: Undo) -> StepBuilder<HasUndo> {
        self.step.undo = undo;
        StepBuilder { step: self.step, state: PhantomData }
    }
}

impl StepBuilder<HasUndo> {
    /// Builds the step.
    pub fn build(self) -> Step {
        self.step
    }
}
