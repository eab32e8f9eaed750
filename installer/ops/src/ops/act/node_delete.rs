//! Deletes a node object through the API server of a control plane.

use kubexm_plan::op::{NodeDelete, Progress};

use super::node_lookup;
use super::perform::Perform;
use crate::kube::{self, kubectl};
use crate::{Machine, OpError};

impl Perform for NodeDelete {
    /// Done: there is no such node, or this host is no control plane any more.
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        if !kube::has_control_plane(machine) {
            return Ok(Progress::Done);
        }
        // An API server that is temporarily down still has the node.
        Ok(match kube::find_node(machine, &self.node) {
            Ok(None) => Progress::Done,
            Ok(Some(_)) | Err(_) => Progress::NotBegun,
        })
    }

    /// Does not wait for the deletion of dependent objects.
    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        if !kube::has_control_plane(machine) {
            return node_lookup::forget(machine, &self.node);
        }
        machine.run(&kubectl(["delete", "node", &self.node, "--ignore-not-found", "--wait=false"]))?;
        node_lookup::forget(machine, &self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};

    impl ActCases for NodeDelete {
        const TESTED: Tested<ActCase<Self>> = Tested::In("join.rs");
    }
}
