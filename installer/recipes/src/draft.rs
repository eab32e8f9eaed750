//! A plan while it is being written: modules put texts and slots into it and give back steps.

use kubexm_plan::op::{Content, File};
use kubexm_plan::{Plan, SlotName, SlotProvider, Step, StepId};
use minijinja::Value;

use crate::context::{Node, PlanCx};
use crate::error::RecipeError;
use crate::templates;

/// A plan while it is being written.
#[derive(Debug)]
pub struct Draft<'a> {
    /// What it is written from.
    pub cx: &'a PlanCx<'a>,
    plan: Plan,
}

/// The steps of a host in the order they were added: each runs after the one before it.
#[derive(Debug, Default)]
pub struct Chain {
    steps: Vec<Step>,
    tail: Vec<StepId>,
}

impl<'a> Draft<'a> {
    /// An empty plan of a pipeline over these nodes.
    pub fn new(cx: &'a PlanCx<'a>, pipeline: &str, nodes: &[Node<'_>]) -> Self {
        let plan = Plan {
            schema: kubexm_plan::SCHEMA,
            pipeline: pipeline.to_owned(),
            cluster_name: cx.cluster.name.clone(),
            cluster: cx.cluster_digest,
            bundle: Some(cx.manifest_digest),
            hosts: nodes.iter().map(plan_host).collect(),
            fleet_concurrency: 16,
            host_concurrency: 4,
            slots: Default::default(),
            texts: Default::default(),
            steps: Vec::new(),
        };
        Self { cx, plan }
    }

    /// A file with this text.
    pub fn file(&mut self, path: impl Into<String>, mode: u32, text: impl Into<String>) -> File {
        File { path: path.into(), content: Content::Text { digest: self.plan.text(text) }, mode }
    }

    /// A file from a template of this crate.
    pub fn template(
        &mut self,
        path: impl Into<String>,
        name: &'static str,
        values: Value,
    ) -> Result<File, RecipeError> {
        Ok(self.file(path, 0o644, templates::render(name, values)?))
    }

    /// A file with a slot's value.
    pub fn slot_file(&mut self, path: &str, mode: u32, slot: &str, provider: SlotProvider) -> File {
        let slot = SlotName(slot.to_owned());
        self.plan.slots.insert(slot.clone(), provider);
        File { path: path.to_owned(), content: Content::Slot { slot }, mode }
    }

    /// A text that is no file of its own.
    pub fn text(&mut self, text: impl Into<String>) -> kubexm_spec::Digest {
        self.plan.text(text)
    }

    /// The finished plan, with the steps of a chain.
    pub fn finish(mut self, chain: Chain) -> Plan {
        self.plan.steps.extend(chain.steps);
        self.plan
    }
}

impl Chain {
    /// Adds steps that run one after the other, after all that the chain has.
    pub fn then(&mut self, steps: impl IntoIterator<Item = Step>) {
        for step in steps {
            self.together([step]);
        }
    }

    /// Adds steps that may run at the same time, after all that the chain has.
    pub fn together(&mut self, steps: impl IntoIterator<Item = Step>) {
        let mut added = Vec::new();
        for mut step in steps {
            step.after.extend(self.tail.iter().cloned());
            added.push(step.id.clone());
            self.steps.push(step);
        }
        if !added.is_empty() {
            self.tail = added;
        }
    }
}

fn plan_host(node: &Node<'_>) -> kubexm_plan::PlanHost {
    let roles = [("control-plane", node.control_plane), ("worker", node.worker), ("registry", node.registry)];
    kubexm_plan::PlanHost {
        name: node.name().to_owned(),
        roles: roles.into_iter().filter(|(_, has)| *has).map(|(role, _)| role.to_owned()).collect(),
        expendable: node.worker && !node.control_plane && !node.registry,
    }
}
