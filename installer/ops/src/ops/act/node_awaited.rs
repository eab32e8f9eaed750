//! A node's object is awaited: from here on it is this run's to delete, when it was not there before.
//!
//! kubelet makes its object in the middle of `kubeadm join`, whatever becomes of the join then, and may not delete it. So a
//! control plane looks before each join whether there is one. What it found is the step's before-state, and the rollback
//! of a step that found none deletes it.

use std::time::Duration;

use kubexm_plan::op::{NodeAwaited, Progress};

use super::perform::Perform;
use crate::fsio::{self, Access};
use crate::{Machine, OpError, kube};

const FOLDER: &str = "/run/kubexm/awaited";
/// For how long a look counts. A later run looks anew.
const FRESH: Duration = Duration::from_secs(300);

impl Perform for NodeAwaited {
    /// Done: there is such a node, or somebody has just looked and found none.
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        if !kube::has_control_plane(machine) {
            return Ok(Progress::NotBegun);
        }
        // No answer is an error: a node that is there must never pass for one that this run has made.
        let there = kube::find_node(machine, &self.node)?.is_some();
        Ok(if there || has_mark(machine, &self.node) { Progress::Done } else { Progress::NotBegun })
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        if !kube::has_control_plane(machine) {
            return Err(OpError::other(format!(
                "cannot wait for node {}: this host runs no API server, but it was planned as the first control plane",
                self.node
            )));
        }
        machine.write_file(&mark(&self.node), b"", Access::mode(0o600))
    }
}

/// Whether somebody has just looked.
fn has_mark(machine: &Machine, node: &str) -> bool {
    let made = machine.path(mark(node)).metadata().and_then(|found| found.modified());
    // One from the future is of a clock that was set.
    made.ok().and_then(|made| made.elapsed().ok()).is_some_and(|age| age < FRESH)
}

/// The node is awaited no more.
pub(super) fn forget(machine: &Machine, node: &str) -> Result<(), OpError> {
    fsio::remove(&machine.path(mark(node)))?;
    // Only when no other node is awaited.
    let _ = std::fs::remove_dir(machine.path(FOLDER));
    Ok(())
}

fn mark(node: &str) -> String {
    format!("{FOLDER}/{node}")
}
