//! The first control plane, set up by kubeadm, and labels and taints of a node in the cluster.

use kubexm_plan::op::{File, KubeadmInit, KubeadmReset, StateDir};
use kubexm_plan::{Step, StepId, Undo, etcd, state_folders};
use kubexm_spec::cluster::EtcdKind;

use crate::balancer::kube_vip;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::{backup, kubeadm_config, node_object};
use crate::{network, runtime};
use crate::{paths, selinux, support};

/// kubeadm's config on the node.
pub fn configure(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let text = kubeadm_config::init(draft.cx, node)?;
    config(draft, node, text)
}

/// The same, of what kubeadm has upgraded.
pub fn configure_upgraded(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let text = kubeadm_config::upgraded(draft.cx, node)?;
    config(draft, node, text)
}

fn config(draft: &mut Draft<'_>, node: &PlannedHost<'_>, text: String) -> Result<Step, RecipeError> {
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
pub fn init(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let backup = cx.from_backup.map(|source| backup::restored(draft, node, source));
    Ok(Step::on(node.name(), "control-plane.init", "Start the control plane with kubeadm")
        .ensure_all(etcd_folder(draft, node))
        .ensure_all(state_dirs(cx, node)?)
        .ensure(KubeadmInit {
            config: paths::KUBEADM_CONFIG.to_owned(),
            cri_socket: runtime::of(cx.cluster).endpoint.to_owned(),
            ignore: ignored(cx, node)?.into_iter().chain(kube_vip::ignored(cx.cluster)).collect(),
            backup: backup.clone(),
        })
        .timeout_s(if backup.is_some() { 7_200 } else { 600 })
        .undo(Undo::Act { act: KubeadmReset { cri_socket: runtime::of(cx.cluster).endpoint.to_owned() }.into() })
        .build())
}

/// For acts of the host, which do not see cluster.yaml: where kubeadm's etcd has its data, if that is not the usual folder.
pub fn etcd_folder(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Option<File> {
    let folder = own_etcd_folder(draft.cx, node)?;
    Some(draft.file(etcd::DATA_DIR, 0o644, format!("{folder}\n")))
}

fn own_etcd_folder<'a>(cx: &PlanContext<'a>, node: &PlannedHost<'_>) -> Option<&'a str> {
    let etcd = &cx.cluster.etcd;
    let has = etcd.kind == EtcdKind::Kubeadm && etcd.has_own_folder() && node.roles.control_plane;
    has.then_some(etcd.data_dir.as_str())
}

/// The folders that kubeadm, kubelet and pods fill.
pub fn state_dirs(
    cx: &PlanContext<'_>,
    node: &PlannedHost<'_>,
) -> Result<impl Iterator<Item = StateDir> + use<>, RecipeError> {
    let networks = network::all_of(cx.cluster);
    let own = own_etcd_folder(cx, node);
    let mut folders = match cx.cluster.etcd.kind {
        EtcdKind::Kubeadm if own.is_none() => state_folders::of_kubernetes(&networks),
        EtcdKind::Kubeadm | EtcdKind::Kubexm | EtcdKind::External => {
            state_folders::of_kubernetes_without_etcd(&networks)
        }
    };
    folders.extend(own);
    Ok(folders.into_iter().map(StateDir::at).collect::<Vec<_>>().into_iter())
}

/// kubeadm's preflight checks to ignore on a node, by the support matrix.
pub fn ignored(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Vec<String>, RecipeError> {
    let support = support::of(cx.catalogue, &cx.kubernetes_version(node.platform)?)?;
    let cgroup_v1 = support::cgroup_v1_wanted(cx.kubernetes()?, node.facts);
    Ok(support.kubeadm_ignore(cgroup_v1).into_iter().map(str::to_owned).collect())
}

/// Labels, annotations and taints of the first control plane. Also where cluster.yaml sets none: it may have set some before.
pub fn register(node: &PlannedHost<'_>, init: &StepId) -> Step {
    Step::on(node.name(), "control-plane.register", "Set the node's labels and taints")
        .ensure_all(node_object::of(node))
        .retries(3)
        .undo(Undo::WithParent { step: init.clone() })
        .build()
}
