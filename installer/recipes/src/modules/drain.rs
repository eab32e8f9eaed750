//! Drains a node through the API server of a control plane, and lets pods come back.

use kubexm_plan::op::{DrainedFor, NodeCordon, NodeDrain, NodeUncordon, Probe};
use kubexm_plan::{Step, Undo};

/// What the drain of a step has in addition to kubectl's own limit, in seconds.
const SPARE_S: u64 = 120;
/// What blocks is named within this time, while kubectl still waits.
const NAMED_WITHIN_S: u64 = 30;

/// How nodes are drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// How long to wait for the pods of one node, in seconds.
    pub limit_s: u64,
    /// Delete pods that no controller creates again.
    pub force: bool,
}

impl Default for Drain {
    fn default() -> Self {
        Self { limit_s: 300, force: false }
    }
}

/// Cordons `node` from the control plane `on`, before the first of several nodes is drained: what is evicted there does not come here.
/// Rolled back by making it schedulable again, unless it was cordoned before.
pub fn cordon(on: &str, id: &str, node: &str, cordoned_by: &str) -> Step {
    let by = || cordoned_by.to_owned();
    let undo = NodeUncordon { node: node.to_owned(), cordoned_by: Some(by()) };
    Step::on(on, id, &format!("Cordon {node}"))
        .domain(node)
        .ensure(NodeCordon { node: node.to_owned(), cordoned_by: by() })
        .retries(3)
        .undo(Undo::Act { act: undo.into() })
        .build()
}

/// Cordons `node` and evicts its pods from the control plane `on`; rolled back by making it schedulable again.
/// `unless`: nothing is evicted from a node that has this. `cordoned_by`: what the node is marked with, and then only
/// a node with this mark is made schedulable again.
pub fn step(on: &str, id: &str, node: &str, drain: Drain, unless: DrainedFor<'_>, cordoned_by: Option<String>) -> Step {
    let Drain { limit_s, force } = drain;
    let unless_kubelet = unless.kubelet.map(str::to_owned);
    let unless_packages = unless.packages.map(str::to_owned);
    let probe = Probe::NodeDrained {
        node: node.to_owned(),
        unless_kubelet: unless_kubelet.clone(),
        unless_packages: unless_packages.clone(),
    };
    let by = cordoned_by.clone();
    let act = NodeDrain { node: node.to_owned(), limit_s, force, unless_kubelet, unless_packages, cordoned_by: by };
    Step::on(on, id, &format!("Cordon {node} and evict its pods"))
        .domain(node)
        .ensure(act)
        .probe(probe, NAMED_WITHIN_S)
        .timeout_s(limit_s.saturating_add(SPARE_S))
        .undo(Undo::Act { act: NodeUncordon { node: node.to_owned(), cordoned_by }.into() })
        .build()
}
