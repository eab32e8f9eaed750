//! Makes a node schedulable again.

use kubexm_plan::op::{NodeUncordon, Progress};
use serde_json::Value;

use super::perform::Perform;
use crate::kube::{self, kubectl};
use crate::{Machine, OpError};

impl Perform for NodeUncordon {
    /// Done: there is no such node, or it is schedulable, or this host is no control plane any more.
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        if !kube::has_control_plane(machine) {
            return Ok(Progress::Done);
        }
        let cordoned = |node: &Value| node.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or_default();
        Ok(match kube::find_node(machine, &self.node)? {
            Some(node) if cordoned(&node) => Progress::NotBegun,
            _ => Progress::Done,
        })
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        machine.run(&kubectl(["uncordon", &self.node])).map(drop)
    }
}
