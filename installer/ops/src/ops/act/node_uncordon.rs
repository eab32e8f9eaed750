//! Makes a node schedulable again.

use kubexm_plan::op::{CORDONED_BY, NodeUncordon, Progress};
use serde_json::{Value, json};

use super::perform::Perform;
use crate::kube::{self, kubectl};
use crate::{Machine, OpError};

impl Perform for NodeUncordon {
    /// Done: there is no such node, or it is schedulable or was cordoned by somebody else, or this host is no control plane
    /// any more.
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        if !kube::has_control_plane(machine) {
            return Ok(Progress::Done);
        }
        let cordoned = |node: &Value| node.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or_default();
        let waits = |node: &Value| match &self.cordoned_by {
            // A note on a node that is schedulable is removed, too: it would be taken for that of a later cordon.
            Some(by) => kube::cordoned_by(node) == Some(by),
            None => cordoned(node),
        };
        Ok(match kube::find_node(machine, &self.node)? {
            Some(node) if waits(&node) => Progress::NotBegun,
            _ => Progress::Done,
        })
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        if self.cordoned_by.is_none() {
            return machine.run(&kubectl(["uncordon", &self.node])).map(drop);
        }
        if self.progress(machine)? == Progress::Done {
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": {CORDONED_BY: null}}, "spec": {"unschedulable": null}});
        let patch = patch.to_string();
        machine.run(&kubectl(["patch", "node", self.node.as_str(), "--type=merge", "--patch", &patch])).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};
    use crate::dispatch;
    use kubexm_plan::op::NodeDrain;

    impl ActCases for NodeUncordon {
        const TESTED: Tested<ActCase<Self>> = Tested::Here(&[ActCase {
            name: "a cordoned node",
            host: |h| {
                h.with_cluster();
                let drain = NodeDrain {
                    node: "node1".into(),
                    limit_s: 5,
                    force: false,
                    unless_kubelet: None,
                    unless_packages: None,
                    cordoned_by: None,
                };
                dispatch::converge(&drain.into(), &h.machine).expect("drained");
                NodeUncordon { node: "node1".into(), cordoned_by: None }
            },
            progress: Progress::NotBegun,
            undo: None,
        }]);
    }
}
