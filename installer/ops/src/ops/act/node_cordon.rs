//! Cordons a node, and says on it on whose behalf.

use kubexm_plan::op::{NodeCordon, Progress};
use serde_json::Value;

use super::perform::Perform;
use crate::kube;
use crate::{Machine, OpError};

impl Perform for NodeCordon {
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        if !kube::has_control_plane(machine) {
            return Ok(Progress::Done);
        }
        let cordoned = |node: &Value| node.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true);
        Ok(match kube::find_node(machine, &self.node)? {
            Some(node) if !cordoned(&node) => Progress::NotBegun,
            _ => Progress::Done,
        })
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        // Somebody may have cordoned it since: it stays his.
        match self.progress(machine)? {
            Progress::Done => Ok(()),
            _ => kube::cordon(machine, &self.node, &self.cordoned_by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};
    use kubexm_plan::op::NodeUncordon;

    impl ActCases for NodeCordon {
        const TESTED: Tested<ActCase<Self>> = Tested::Here(&[ActCase {
            name: "a schedulable node",
            host: |h| {
                h.with_cluster();
                NodeCordon { node: "node1".into(), cordoned_by: "a deletion".into() }
            },
            progress: Progress::NotBegun,
            undo: Some(|| NodeUncordon { node: "node1".into(), cordoned_by: Some("a deletion".into()) }.into()),
        }]);
    }
}
