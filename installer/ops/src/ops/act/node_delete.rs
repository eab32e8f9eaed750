//! The node's object is deleted, asked of the API from a control plane.

use kubexm_plan::op::{NodeDelete, Progress};

use super::node_awaited;
use super::perform::Perform;
use crate::kube::{self, kubectl};
use crate::{Machine, OpError};

impl Perform for NodeDelete {
    /// Done: no such node, or this host is a control plane no more.
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        if !kube::has_control_plane(machine) {
            return Ok(Progress::Done);
        }
        // An API server that is away for a moment has not lost the node.
        Ok(match kube::find_node(machine, &self.node) {
            Ok(None) => Progress::Done,
            Ok(Some(_)) | Err(_) => Progress::NotBegun,
        })
    }

    /// Does not wait for what else goes with the node.
    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        if !kube::has_control_plane(machine) {
            return node_awaited::forget(machine, &self.node);
        }
        machine.run(&kubectl(["delete", "node", &self.node, "--ignore-not-found", "--wait=false"]))?;
        node_awaited::forget(machine, &self.node)
    }
}
