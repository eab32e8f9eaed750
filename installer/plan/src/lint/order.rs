//! The order between the steps of a plan.

use std::collections::BTreeMap;

use petgraph::algo::toposort;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, Reversed};

use crate::id::StepId;
use crate::plan::Plan;
use crate::step::Step;

/// The order between the steps of a plan, derived from `after` and `after_end`.
#[derive(Debug)]
pub struct Order {
    /// For each step, by position, whether each other step must have succeeded before it.
    before: Vec<Vec<bool>>,
    /// The same for steps that must at least have finished.
    earlier: Vec<Vec<bool>>,
    /// A step that depends on itself through other steps.
    cycle: Option<usize>,
}

impl Order {
    /// Reads the dependencies; ids of steps that do not exist are ignored (another rule reports them).
    pub fn of(plan: &Plan) -> Self {
        let after = graph(plan, |step| step.after.iter().collect());
        let all = graph(plan, |step| step.after.iter().chain(&step.after_end).collect());
        let cycle = toposort(&all, None).err().map(|cycle| cycle.node_id().index());
        Self { before: ancestors(&after), earlier: ancestors(&all), cycle }
    }

    /// Whether the step at position `earlier` must have succeeded before the one at `later` starts.
    pub fn is_before(&self, earlier: usize, later: usize) -> bool {
        holds(&self.before, earlier, later)
    }

    /// Whether the step at position `earlier` must have finished, successfully or not, before the one at `later`
    /// starts.
    pub fn is_earlier(&self, earlier: usize, later: usize) -> bool {
        holds(&self.earlier, earlier, later)
    }

    /// A step that depends on itself, by position.
    pub fn cycle(&self) -> Option<usize> {
        self.cycle
    }
}

fn holds(rows: &[Vec<bool>], earlier: usize, later: usize) -> bool {
    rows.get(later).and_then(|row| row.get(earlier)).copied().unwrap_or(false)
}

fn graph(plan: &Plan, edges: impl Fn(&Step) -> Vec<&StepId>) -> DiGraph<(), ()> {
    let positions: BTreeMap<&StepId, usize> = plan.steps.iter().enumerate().map(|(i, s)| (&s.id, i)).collect();
    let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(plan.steps.len(), plan.steps.len());
    let nodes: Vec<NodeIndex> = plan.steps.iter().map(|_| graph.add_node(())).collect();
    for (step, node) in plan.steps.iter().zip(&nodes) {
        for earlier in edges(step).into_iter().filter_map(|id| positions.get(id)) {
            graph.add_edge(nodes[*earlier], *node, ());
        }
    }
    graph
}

fn ancestors(graph: &DiGraph<(), ()>) -> Vec<Vec<bool>> {
    let of = |node: NodeIndex| {
        let mut seen = vec![false; graph.node_count()];
        let mut walk = Dfs::new(Reversed(graph), node);
        while let Some(earlier) = walk.next(Reversed(graph)) {
            seen[earlier.index()] = earlier != node;
        }
        seen
    };
    graph.node_indices().map(of).collect()
}
