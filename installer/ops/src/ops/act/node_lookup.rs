//! Records before a join whether the node object exists, so that a rollback deletes only one that this run has created.
//!
//! kubelet creates its object during `kubeadm join`, even if the join fails later, and is not allowed to delete it. So
//! a control plane checks before each join whether the object exists. The result is the step's before-state; if there
//! was none, the rollback deletes the object.

use std::time::Duration;

use kubexm_plan::op::{NodeLookup, Progress};

use super::perform::Perform;
use crate::fsio::{self, Access};
use crate::{Machine, OpError, kube};

const FOLDER: &str = "/run/kubexm/awaited";
/// How long the result is valid. A later run checks again.
const FRESH: Duration = Duration::from_secs(300);

impl Perform for NodeLookup {
    /// Done: the object exists, or its absence was just observed.
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        if !kube::has_control_plane(machine) {
            return Ok(Progress::NotBegun);
        }
        // No answer is an error: an existing node must never be taken for one that this run has created.
        let there = kube::find_node(machine, &self.node)?.is_some();
        Ok(if there || has_mark(machine, &self.node) { Progress::Done } else { Progress::NotBegun })
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        if !kube::has_control_plane(machine) {
            return Err(OpError::other(format!(
                "cannot look up node {}: this host runs no API server, but it was planned as the first control plane",
                self.node
            )));
        }
        machine.write_file(&mark(&self.node), b"", Access::mode(0o600))
    }
}

/// Whether the absence was just observed.
fn has_mark(machine: &Machine, node: &str) -> bool {
    let made = machine.path(mark(node)).metadata().and_then(|found| found.modified());
    // A record from the future is invalid: the clock was set back.
    made.ok().and_then(|made| made.elapsed().ok()).is_some_and(|age| age < FRESH)
}

/// Deletes the record.
pub(super) fn forget(machine: &Machine, node: &str) -> Result<(), OpError> {
    fsio::remove(&machine.path(mark(node)))?;
    // Only if there is no other record.
    let _ = std::fs::remove_dir(machine.path(FOLDER));
    Ok(())
}

fn mark(node: &str) -> String {
    format!("{FOLDER}/{node}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};
    use kubexm_plan::op::NodeDelete;

    impl ActCases for NodeLookup {
        const TESTED: Tested<ActCase<Self>> = Tested::Here(&[ActCase {
            name: "a node that is not there yet",
            host: |h| {
                h.with_cluster();
                NodeLookup { node: "node2".into() }
            },
            progress: Progress::NotBegun,
            undo: Some(|| NodeDelete { node: "node2".into() }.into()),
        }]);
    }
}
