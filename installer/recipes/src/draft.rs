//! A plan under construction: modules add texts and slots to it and return steps.

use std::collections::BTreeSet;

use kubexm_plan::op::{Content, File};
use kubexm_plan::{Pipeline, Plan, PlanHost, SlotName, SlotProvider, Step, StepId};
use kubexm_spec::cluster::Roles;
use minijinja::Value;

use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;
use crate::modules::issued::{self, Issued, Slots};
use crate::templates::{self, Template};

/// The most hosts that are changed at the same time. A host mostly waits (for units, kubelet, kubeadm), so sixty hosts
/// take two rounds; with more at once, all downloads share the link of the depot's host and time out.
const FLEET_CONCURRENCY: usize = 32;

/// A plan under construction.
#[derive(Debug)]
pub struct Draft<'a> {
    /// The input.
    pub cx: &'a PlanContext<'a>,
    plan: Plan,
    depends_on_all: BTreeSet<StepId>,
}

/// A plan, and which of its steps depend on all hosts.
#[derive(Debug)]
pub struct Drafted {
    /// The plan.
    pub plan: Plan,
    /// Steps whose content depends on all hosts of the cluster: adding a host changes them.
    pub depends_on_all: BTreeSet<StepId>,
}

/// Steps in the order they were added: each runs after the one before it. Chains can fork and join.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    steps: Vec<Step>,
    tail: Vec<StepId>,
}

impl<'a> Draft<'a> {
    /// An empty plan of a pipeline over these nodes.
    pub fn new(cx: &'a PlanContext<'a>, pipeline: Pipeline, nodes: &[PlannedHost<'_>]) -> Self {
        let plan = Plan {
            schema: kubexm_plan::SCHEMA,
            pipeline,
            cluster_name: cx.cluster.name.clone(),
            cluster_id: cx.cluster_id,
            cluster: cx.cluster_digest,
            bundle: Some(cx.manifest_digest),
            hosts: nodes.iter().map(|node| plan_host(node.name(), node.roles, node.optional())).collect(),
            fleet_concurrency: FLEET_CONCURRENCY,
            host_concurrency: 4,
            slots: Default::default(),
            texts: Default::default(),
            steps: Vec::new(),
        };
        Self { cx, plan, depends_on_all: BTreeSet::new() }
    }

    /// A file with this text.
    pub fn file(&mut self, path: impl Into<String>, mode: u32, text: impl Into<String>) -> File {
        File { path: path.into(), content: Content::Text { digest: self.plan.text(text) }, mode }
    }

    /// A file from a template of this crate.
    pub fn template(
        &mut self,
        path: impl Into<String>,
        template: Template,
        values: Value,
    ) -> Result<File, RecipeError> {
        Ok(self.file(path, 0o644, templates::render(template, values)?))
    }

    /// A file with a slot's value.
    pub fn slot_file(&mut self, path: &str, mode: u32, slot: &str, provider: SlotProvider) -> File {
        issued::slot_file(&mut self.plan.slots, path, mode, slot, provider)
    }

    /// The files of a certificate and its key.
    pub fn issued(&mut self, issued: Issued) -> [File; 2] {
        issued.files(&mut self.plan.slots)
    }

    /// The slots that were added so far.
    pub const fn slots(&mut self) -> &mut Slots {
        &mut self.plan.slots
    }

    /// A file with this text, in which the placeholder of a slot is replaced by its value.
    pub fn filled_file(
        &mut self,
        path: &str,
        mode: u32,
        slot: &str,
        provider: SlotProvider,
        text: impl FnOnce(&SlotName) -> String,
    ) -> File {
        let slot = self.slot(slot, provider);
        let digest = self.plan.text(text(&slot));
        File { path: path.to_owned(), content: Content::Filled { digest, slots: vec![slot] }, mode }
    }

    /// Adds a slot with the provider of its value.
    pub fn slot(&mut self, slot: &str, provider: SlotProvider) -> SlotName {
        let slot = SlotName(slot.to_owned());
        self.plan.slots.insert(slot.clone(), provider);
        slot
    }

    /// Adds a text that is not a file.
    pub fn text(&mut self, text: impl Into<String>) -> kubexm_spec::Digest {
        self.plan.text(text)
    }

    /// Adds a chain's steps to the plan; returns the ids that later steps wait for.
    pub fn add(&mut self, chain: Chain) -> Vec<StepId> {
        self.plan.steps.extend(chain.steps);
        chain.tail
    }

    /// Marks a step as depending on all hosts.
    pub fn depends_on_all(&mut self, step: Step) -> Step {
        self.depends_on_all.insert(step.id.clone());
        step
    }

    /// The finished plan.
    pub fn finish(mut self) -> Drafted {
        issued::set_validity(self.cx.cluster, &mut self.plan.slots);
        Drafted { plan: self.plan, depends_on_all: self.depends_on_all }
    }
}

impl Chain {
    /// A chain that starts after these steps.
    pub fn after(steps: impl IntoIterator<Item = StepId>) -> Self {
        Self { steps: Vec::new(), tail: steps.into_iter().collect() }
    }

    /// Adds steps that run one after the other, after all steps of the chain.
    pub fn then(&mut self, steps: impl IntoIterator<Item = Step>) {
        for step in steps {
            self.together([step]);
        }
    }

    /// Adds steps that may run in parallel, after all steps of the chain.
    pub fn together(&mut self, steps: impl IntoIterator<Item = Step>) {
        let mut added = Vec::new();
        for mut step in steps {
            let missing: Vec<StepId> = self.tail.iter().filter(|id| !step.after.contains(id)).cloned().collect();
            step.after.extend(missing);
            added.push(step.id.clone());
            self.steps.push(step);
        }
        if !added.is_empty() {
            self.tail = added;
        }
    }

    /// Lets later steps wait for these steps too.
    pub fn wait(&mut self, steps: &[StepId]) {
        for step in steps {
            if !self.tail.contains(step) {
                self.tail.push(step.clone());
            }
        }
    }

    /// A new chain that starts after the last steps of this one.
    pub fn fork(&self) -> Self {
        Self::after(self.tail.iter().cloned())
    }

    /// Adds the steps of a fork; later steps wait for both.
    pub fn merge(&mut self, fork: Self) {
        if fork.steps.is_empty() {
            return;
        }
        let own = std::mem::take(&mut self.tail);
        // Waiting for the fork's last steps implies waiting for the steps that it started after.
        let starts: Vec<&StepId> = fork.steps.iter().flat_map(|step| &step.after).collect();
        self.tail = own.into_iter().filter(|id| !starts.contains(&id)).collect();
        self.wait(&fork.tail);
        self.steps.extend(fork.steps);
    }

    /// Adds the steps of a fork that this chain does not wait for.
    pub fn merge_unawaited(&mut self, fork: Self) {
        self.steps.extend(fork.steps);
    }

    /// Lets the first steps of the chain wait for a step that must have succeeded.
    pub fn starts_after(&mut self, step: &StepId) {
        self.starts().for_each(|first| first.after.push(step.clone()));
    }

    /// Lets the first steps of the chain wait for a step that must have ended, successfully or not.
    pub fn starts_settled(&mut self, step: &StepId) {
        self.starts().for_each(|first| first.after_end.push(step.clone()));
    }

    /// The steps that depend on no other step of the chain.
    fn starts(&mut self) -> impl Iterator<Item = &mut Step> {
        let ids: Vec<StepId> = self.steps.iter().map(|step| step.id.clone()).collect();
        self.steps.iter_mut().filter(move |step| !step.after.iter().any(|id| ids.contains(id)))
    }

    /// Whether a step was added to it.
    pub const fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// The steps that later ones wait for.
    pub fn tail(&self) -> &[StepId] {
        &self.tail
    }
}

/// Lets at most `width` of the chains, one per host, run at the same time: each starts after the chain `width` places
/// before it. Only dependencies are added.
pub fn rolling(chains: &mut [Chain], width: usize) {
    let width = width.max(1);
    for later in width..chains.len() {
        let (done, rest) = chains.split_at_mut(later);
        for end in &done[later - width].tail {
            rest[0].starts_after(end);
        }
    }
}

/// A host in a plan.
pub(crate) fn plan_host(name: &str, roles: Roles, optional: bool) -> PlanHost {
    PlanHost { name: name.to_owned(), roles: roles.names().map(str::to_owned).collect(), optional }
}
