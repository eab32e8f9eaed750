//! Cordons a node and evicts its pods: `kubectl drain`, which respects budgets.
//!
//! What blocks is read from the API server and not from kubectl's output, since the step's probe reports it too, while
//! kubectl still waits.

use kubexm_plan::op::{NodeDrain, Progress};

use super::perform::Perform;
use crate::kube::drained::Left;
use crate::kube::{self, kubectl};
use crate::{Machine, OpError, transient};

/// More than kubectl's own limit, within which it reports what is left.
const SPARE_S: u64 = 30;
/// Pods of a node without a kubelet are not waited for: nobody confirms their end.
const LOST: &str = "--skip-wait-for-delete-timeout=30";

impl Perform for NodeDrain {
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        if !kube::has_control_plane(machine) {
            return Ok(Progress::Done);
        }
        let Some(left) = Left::on(machine, &self.node)? else { return Ok(Progress::Done) };
        Ok(match left {
            left if left.is_drained() || left.has(self.drained_for()) => Progress::Done,
            left if left.schedulable => Progress::NotBegun,
            left if self.cordoned_by.is_some() && left.cordoned_by == self.cordoned_by => Progress::HalfDone,
            _ if is_running(machine)? => Progress::HalfDone,
            // Cordoned by somebody else, or by an earlier run: it stays so if this run is rolled back.
            _ => Progress::Damaged,
        })
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        let Some(left) = Left::on(machine, &self.node)? else { return Ok(()) };
        let bare = left.bare();
        if !self.force && !bare.is_empty() {
            return Err(OpError::other(format!(
                "pods on {} have no controller that would create them again elsewhere: {}; nothing was evicted. Delete \
                 them yourself, or give --force, which deletes them",
                self.node,
                bare.join(", ")
            )));
        }
        if let Some(by) = self.cordoned_by.as_ref().filter(|_| left.schedulable) {
            kube::cordon(machine, &self.node, by)?;
        }
        let limit = format!("--timeout={}s", self.limit_s);
        let mut drain = kubectl(["drain", &self.node, "--ignore-daemonsets", "--delete-emptydir-data", &limit]);
        if !left.ready {
            drain = drain.arg(LOST);
        }
        if self.force {
            drain = drain.arg("--force");
        }
        let Err(error) = machine.run_act(&drain.within(self.limit_s.saturating_add(SPARE_S))) else { return Ok(()) };
        match Left::on(machine, &self.node) {
            Ok(Some(left)) if !left.is_drained() && !left.pods.is_empty() => Err(OpError::other(format!(
                "node {} was not drained within {} s: {left}; let these pods go (more replicas, another budget), then run \
                 again, or give more time with --drain-timeout",
                self.node, self.limit_s
            ))),
            _ => Err(error),
        }
    }
}

/// Whether kubectl of an earlier attempt still runs.
fn is_running(machine: &Machine) -> Result<bool, OpError> {
    machine.act().map_or(Ok(false), |act| transient::is_running(machine, act))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};
    use kubexm_plan::op::NodeUncordon;

    impl ActCases for NodeDrain {
        const TESTED: Tested<ActCase<Self>> = Tested::Here(&[ActCase {
            name: "a node to drain",
            host: |h| {
                h.with_cluster();
                NodeDrain {
                    node: "node1".into(),
                    limit_s: 5,
                    force: false,
                    unless_kubelet: None,
                    unless_packages: None,
                    cordoned_by: None,
                }
            },
            progress: Progress::NotBegun,
            undo: Some(|| NodeUncordon { node: "node1".into(), cordoned_by: None }.into()),
        }]);
    }
}
