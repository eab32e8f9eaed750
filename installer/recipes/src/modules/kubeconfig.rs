//! admin.conf for root and for the SSH user.

use kubexm_plan::op::Kubeconfig;
use kubexm_plan::{Step, Undo};

use crate::context::Node;

/// On a control plane, after it was started.
pub fn step(node: &Node<'_>) -> Step {
    let mut step = Step::on(node.name(), "kubeconfig.users", "Give root and the SSH user a kubeconfig")
        .ensure(Kubeconfig { user: "root".to_owned() });
    if node.host.user != "root" {
        step = step.ensure(Kubeconfig { user: node.host.user.clone() });
    }
    step.undo(Undo::RestoreBefore).build()
}
