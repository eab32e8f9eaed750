//! Which step comes before which.

use std::collections::BTreeMap;

use petgraph::algo::toposort;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, Reversed};

use crate::{Plan, StepId};

/// The order between the steps of a plan, as `after` says it.
#[derive(Debug)]
pub struct Order {
    /// For each step (by position) whether each other comes before it.
    before: Vec<Vec<bool>>,
    /// Steps that wait for themselves, by way of others.
    cycle: Option<usize>,
}

impl Order {
    /// Reads `after`; names that no step has are left out (a rule of its own reports them).
    pub fn of(plan: &Plan) -> Self {
        let positions: BTreeMap<&StepId, usize> = plan.steps.iter().enumerate().map(|(i, s)| (&s.id, i)).collect();
        let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(plan.steps.len(), plan.steps.len());
        let nodes: Vec<NodeIndex> = plan.steps.iter().map(|_| graph.add_node(())).collect();
        for (step, node) in plan.steps.iter().zip(&nodes) {
            for earlier in step.after.iter().filter_map(|id| positions.get(id)) {
                graph.add_edge(nodes[*earlier], *node, ());
            }
        }
        let before = nodes
            .iter()
            .map(|node| {
                let mut seen = vec![false; nodes.len()];
                let mut walk = Dfs::new(Reversed(&graph), *node);
                while let Some(earlier) = walk.next(Reversed(&graph)) {
                    seen[earlier.index()] = earlier != *node;
                }
                seen
            })
            .collect();
        Self { before, cycle: toposort(&graph, None).err().map(|cycle| cycle.node_id().index()) }
    }

    /// Whether the step at position `earlier` must have succeeded before the one at `later` begins.
    pub fn is_before(&self, earlier: usize, later: usize) -> bool {
        self.before.get(later).and_then(|row| row.get(earlier)).copied().unwrap_or(false)
    }

    /// A step that waits for itself, by position.
    pub fn cycle(&self) -> Option<usize> {
        self.cycle
    }
}
