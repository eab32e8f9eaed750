//! admin.conf for root and for the SSH user, and the operator's own kubeconfig made from it.

use kubexm_plan::op::Kubeconfig;
use kubexm_plan::{CONTROLLER, OPERATOR_KUBECONFIG, OVER_NETWORK, SlotProvider, Step, StepId, Undo};
use kubexm_spec::Digest;

use crate::context::PlannedHost;
use crate::draft::Draft;

/// On a control plane, after it was started.
pub fn step(node: &PlannedHost<'_>) -> Step {
    let mut step = Step::on(node.name(), "kubeconfig.users", "Give root and the SSH user a kubeconfig")
        .ensure(Kubeconfig { user: "root".to_owned(), replaces: None });
    if node.host.user != "root" {
        step = step.ensure(Kubeconfig { user: node.host.user.clone(), replaces: None });
    }
    step.undo(Undo::RestoreBefore).build()
}

/// On a control plane that was adopted: who has a copy of the admin.conf from before, with this digest, gets one of the renewed.
pub fn of_adopted(node: &PlannedHost<'_>, was: Digest) -> Step {
    let copy = |user: &str| Kubeconfig { user: user.to_owned(), replaces: Some(was) };
    let user = Some(node.host.user.as_str()).filter(|user| *user != "root");
    Step::on(node.name(), "kubeconfig.users", "Renew the copies of admin.conf of root and the SSH user")
        .ensure(copy("root"))
        .ensure_all(user.map(copy))
        .undo(Undo::RestoreBefore)
        .build()
}

/// On the controller, once the first control plane answers.
pub fn of_operator(draft: &mut Draft<'_>, first: &PlannedHost<'_>, after: &StepId) -> Step {
    let provider = SlotProvider::AdminKubeconfig { host: first.name().to_owned() };
    let file = draft.slot_file(OPERATOR_KUBECONFIG, 0o600, "operator-kubeconfig", provider);
    let step = Step::on(CONTROLLER, "kubeconfig.operator", "Write a kubeconfig for the operator on this machine")
        .ensure(file)
        .after(after)
        .retries(OVER_NETWORK)
        .undo(Undo::RestoreBefore)
        .build();
    draft.depends_on_all(step)
}
