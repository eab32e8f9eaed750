//! The first control plane, set up by kubeadm, and labels and taints of a node in the cluster.

use kubexm_plan::op::{KubeadmInit, KubeadmReset, NodeLabel, NodeTainted, NodeUntainted, Op, StateDir};
use kubexm_plan::{Step, StepId, Undo, state_folders};
use kubexm_spec::cluster::EtcdKind;

use crate::balancer::kube_vip;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::kubeadm_config::{self, TAINT};
use crate::{network, runtime};
use crate::{paths, selinux, support};

/// Label that `kubectl get nodes` shows as role; kubeadm sets it on control planes only.
const WORKER_ROLE: &str = "node-role.kubernetes.io/worker";
/// Recommended label of Kubernetes ("Recommended Labels").
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// kubeadm's config on the node.
pub fn configure(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let text = kubeadm_config::init(draft.cx, node)?;
    let (folder, patches) = selinux::patches(draft)?.unzip();
    Ok(Step::on(node.name(), "control-plane.config", "Write kubeadm's config")
        .ensure_all(folder)
        .ensure_all(patches.into_iter().flatten())
        .ensure(draft.file(paths::KUBEADM_CONFIG, 0o644, text))
        .undo(Undo::RestoreBefore)
        .build())
}

/// `kubeadm init`; rolled back by `kubeadm reset`. Its folders are listed right before it: what is in them then is not
/// kubeadm's and is kept by a rollback.
pub fn init(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    Ok(Step::on(node.name(), "control-plane.init", "Start the control plane with kubeadm")
        .ensure_all(state_dirs(cx)?)
        .ensure(KubeadmInit {
            config: paths::KUBEADM_CONFIG.to_owned(),
            cri_socket: runtime::of(cx.cluster).endpoint.to_owned(),
            ignore: ignored(cx, node)?.into_iter().chain(kube_vip::ignored(cx.cluster)).collect(),
        })
        .timeout_s(600)
        .undo(Undo::Act { act: KubeadmReset { cri_socket: runtime::of(cx.cluster).endpoint.to_owned() }.into() })
        .build())
}

/// The folders that kubeadm, kubelet and pods fill.
pub fn state_dirs(cx: &PlanContext<'_>) -> Result<impl Iterator<Item = StateDir> + use<>, RecipeError> {
    let networks = [network::of(cx.cluster)?];
    let folders = match cx.cluster.etcd.kind {
        EtcdKind::Kubeadm => state_folders::of_kubernetes(&networks),
        EtcdKind::Kubexm | EtcdKind::External => state_folders::of_kubernetes_without_etcd(&networks),
    };
    Ok(folders.into_iter().map(StateDir::at))
}

/// kubeadm's preflight checks to ignore on a node, by the support matrix.
pub fn ignored(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Vec<String>, RecipeError> {
    let support = support::of(cx.catalogue, &cx.kubernetes_version(node.platform)?)?;
    let cgroup_v1 = support::cgroup_v1_wanted(cx.kubernetes()?, node.facts);
    Ok(support.kubeadm_ignore(cgroup_v1).into_iter().map(str::to_owned).collect())
}

/// Labels and taints of the first control plane.
pub fn register(node: &PlannedHost<'_>, init: &StepId) -> Step {
    Step::on(node.name(), "control-plane.register", "Set the node's labels and taints")
        .ensure_all(registration(node))
        .retries(3)
        .undo(Undo::WithParent { step: init.clone() })
        .build()
}

/// The labels and taints of a node: those of cluster.yaml, no taint of kubeadm's on a control plane that is a worker too, and the
/// label by which kubexm's nodes are found.
pub fn registration(node: &PlannedHost<'_>) -> Vec<Op> {
    let name = || node.name().to_owned();
    let label = |key: &str, value: &str| NodeLabel { node: name(), key: key.to_owned(), value: value.to_owned() };
    let mut ops: Vec<Op> = Vec::new();
    if node.roles.control_plane && node.roles.worker {
        ops.push(NodeUntainted { node: name(), key: TAINT.to_owned() }.into());
    }
    // kubelet has registered with them; they may be new in cluster.yaml.
    ops.extend(taints(node).map(Op::from));
    ops.extend(node.host.labels.iter().map(|(key, value)| label(key, value).into()));
    let own = if node.roles.control_plane { (MANAGED_BY, "kubexm") } else { (WORKER_ROLE, "") };
    if !node.host.labels.contains_key(own.0) {
        ops.push(label(own.0, own.1).into());
    }
    ops
}

/// The host's taints in cluster.yaml.
fn taints(node: &PlannedHost<'_>) -> impl Iterator<Item = NodeTainted> {
    node.host.taints.iter().map(|taint| NodeTainted {
        node: node.name().to_owned(),
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.to_string(),
    })
}
