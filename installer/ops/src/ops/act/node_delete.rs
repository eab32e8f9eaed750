//! The node's object is deleted, asked of the API from a control plane.

use super::{Progress, node_awaited};
use crate::kube::{self, kubectl};
use crate::{Machine, OpError};

/// Done: no such node, or this host is a control plane no more.
pub(super) fn observe(machine: &Machine, node: &str) -> Result<Progress, OpError> {
    if !kube::has_control_plane(machine) {
        return Ok(Progress::Done);
    }
    // An API server that is away for a moment has not lost the node.
    Ok(match kube::find_node(machine, node) {
        Ok(None) => Progress::Done,
        Ok(Some(_)) | Err(_) => Progress::NotBegun,
    })
}

/// Does not wait for what else goes with the node.
pub(super) fn converge(machine: &Machine, node: &str) -> Result<(), OpError> {
    if !kube::has_control_plane(machine) {
        return node_awaited::forget(machine, node);
    }
    machine.run(&kubectl(["delete", "node", node, "--ignore-not-found", "--wait=false"]))?;
    node_awaited::forget(machine, node)
}
