//! Which step may run next: the DAG of a plan, and how many hosts and steps work at once. Pure.

use std::collections::{BTreeMap, HashMap};

use kubexm_plan::Plan;
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::Dfs;

use crate::EngineError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Holds,
    Failed,
    Blocked,
}

/// The steps of a plan by their index, and where each stands.
#[derive(Debug)]
pub(crate) struct Schedule<'a> {
    plan: &'a Plan,
    graph: DiGraph<(), ()>,
    states: Vec<State>,
}

impl<'a> Schedule<'a> {
    /// Builds the DAG; refuses an unknown predecessor and a cycle.
    pub(crate) fn of(plan: &'a Plan) -> Result<Self, EngineError> {
        let mut graph = DiGraph::new();
        let indices: HashMap<_, _> = plan.steps.iter().map(|s| (&s.id, graph.add_node(()))).collect();
        for step in &plan.steps {
            for before in &step.after {
                let from = indices.get(before).ok_or_else(|| EngineError::Order {
                    step: step.id.clone(),
                    reason: format!("it comes after {before}, which does not exist"),
                })?;
                graph.add_edge(*from, indices[&step.id], ());
            }
        }
        if let Err(cycle) = petgraph::algo::toposort(&graph, None) {
            let step = plan.steps[cycle.node_id().index()].id.clone();
            return Err(EngineError::Order { step, reason: "it waits for itself through others".to_owned() });
        }
        Ok(Self { plan, graph, states: vec![State::Waiting; plan.steps.len()] })
    }

    /// Takes the next step that may run now, in the order of the plan.
    pub(crate) fn take(&mut self) -> Option<usize> {
        let mut running: BTreeMap<&str, usize> = BTreeMap::new();
        for (step, state) in self.plan.steps.iter().zip(&self.states) {
            if *state == State::Running {
                *running.entry(step.host.as_str()).or_default() += 1;
            }
        }
        let has_room = |host: &str| match running.get(host) {
            Some(steps) => *steps < self.plan.host_concurrency.max(1),
            None => running.len() < self.plan.fleet_concurrency.max(1),
        };
        let next = (0..self.states.len()).find(|&index| {
            self.states[index] == State::Waiting && has_room(&self.plan.steps[index].host) && self.is_free(index)
        })?;
        self.states[next] = State::Running;
        Some(next)
    }

    fn is_free(&self, index: usize) -> bool {
        self.graph
            .neighbors_directed(NodeIndex::new(index), Direction::Incoming)
            .all(|before| self.states[before.index()] == State::Holds)
    }

    /// A step holds.
    pub(crate) fn holds(&mut self, index: usize) {
        self.states[index] = State::Holds;
    }

    /// A step was given up before its end; nothing after it runs.
    pub(crate) fn left(&mut self, index: usize) {
        self.states[index] = State::Waiting;
    }

    /// A step failed; returns its descendants that are blocked by it, in the order of the plan.
    pub(crate) fn failed(&mut self, index: usize) -> Vec<usize> {
        self.states[index] = State::Failed;
        let mut blocked = Vec::new();
        let mut walk = Dfs::new(&self.graph, NodeIndex::new(index));
        while let Some(node) = walk.next(&self.graph) {
            if self.states[node.index()] == State::Waiting {
                self.states[node.index()] = State::Blocked;
                blocked.push(node.index());
            }
        }
        blocked.sort_unstable();
        blocked
    }

    /// Whether every step holds.
    pub(crate) fn all_hold(&self) -> bool {
        self.states.iter().all(|s| *s == State::Holds)
    }

    /// Hosts on which a step failed, in the order of the plan.
    pub(crate) fn failed_hosts(&self) -> Vec<&'a str> {
        let failed = |host: &str| {
            self.plan.steps.iter().zip(&self.states).any(|(step, s)| step.host == host && *s == State::Failed)
        };
        self.plan.hosts.iter().map(|h| h.name.as_str()).filter(|h| failed(h)).collect()
    }
}
