//! Joins a node: `kubeadm join` on it, then its labels and taints, set from the first control plane.

use kubexm_plan::op::{Dir, KubeadmJoin, KubeadmReset, NodeDelete, NodeLookup};
use kubexm_plan::{Step, StepId, Undo};
use kubexm_spec::cluster::EtcdKind;
use serde_json::json;

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::control_plane::{etcd_folder, ignored, state_dirs};
use crate::modules::dns;
use crate::modules::join_slots::Slots;
use crate::modules::kubeadm_config::OfNode;
use crate::modules::{kubeadm_config, node_object, site_certificates};
use crate::{minors, paths, runtime, selinux, yaml};

/// The cluster has one KubeletConfiguration, written for the first control plane. A node whose resolv.conf
/// has another path gets a patch: kubelet starts no pod when the configured resolv.conf does not exist. A control plane whose
/// containers are confined gets those of its pods.
pub fn patch(
    draft: &mut Draft<'_>,
    first: &PlannedHost<'_>,
    node: &PlannedHost<'_>,
) -> Result<Option<Step>, RecipeError> {
    if !is_patched(draft, first, node)? {
        return Ok(None);
    }
    let mut files = Vec::new();
    if let Some(path) = patched_resolv_conf(draft, first, node)? {
        let text = yaml::documents("kubelet patch", &[json!({"resolvConf": path})])?;
        files.push(draft.file(paths::KUBELET_PATCH, 0o644, text));
    }
    let title =
        if files.is_empty() { "Patch the control plane's pods" } else { "Point kubelet to this node's resolv.conf" };
    if node.roles.control_plane {
        files.extend(selinux::patches(draft)?.into_iter().flat_map(|(_, files)| files));
    }
    Ok(Some(
        Step::on(node.name(), "join.patch", title)
            .ensure(Dir { path: paths::KUBEADM_PATCHES.to_owned(), mode: 0o755 })
            .ensure_all(files)
            .undo(Undo::RestoreBefore)
            .build(),
    ))
}

/// Whether kubeadm gets patches on this node.
pub fn is_patched(draft: &Draft<'_>, first: &PlannedHost<'_>, node: &PlannedHost<'_>) -> Result<bool, RecipeError> {
    let pods = node.roles.control_plane && selinux::confines(draft.cx.cluster);
    Ok(pods || patched_resolv_conf(draft, first, node)?.is_some())
}

fn patched_resolv_conf(
    draft: &Draft<'_>,
    first: &PlannedHost<'_>,
    node: &PlannedHost<'_>,
) -> Result<Option<&'static str>, RecipeError> {
    if knows_patch(draft.cx, node)? { own_resolv_conf(draft, first, node) } else { Ok(None) }
}

/// Whether kubeadm patches kubelet's configuration; otherwise the node gets a flag.
fn knows_patch(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<bool, RecipeError> {
    Ok(minors::of(cx, node)? >= minors::KUBELET_PATCHES)
}

fn own_resolv_conf(
    draft: &Draft<'_>,
    first: &PlannedHost<'_>,
    node: &PlannedHost<'_>,
) -> Result<Option<&'static str>, RecipeError> {
    let cluster = draft.cx.cluster;
    if draft.cx.kubernetes()?.kubelet.contains_key("resolvConf") {
        return Ok(None);
    }
    let own = dns::kubelet_resolv_conf(cluster, node);
    Ok((own != dns::kubelet_resolv_conf(cluster, first)).then_some(own))
}

/// `kubeadm join`; rolled back by `kubeadm reset`, which also removes a control plane's etcd member.
pub fn step(draft: &mut Draft<'_>, first: &PlannedHost<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let slots = Slots::of(draft, first, node.roles.control_plane);
    let patches = is_patched(draft, first, node)?.then_some(paths::KUBEADM_PATCHES);
    let resolv_conf = if knows_patch(cx, node)? { None } else { own_resolv_conf(draft, first, node)? };
    let config = draft.text(kubeadm_config::join(cx, first, node, &slots, &OfNode { patches, resolv_conf })?);
    // kubelet's credentials are there before the join: nobody would sign what it asks for.
    let given = cx.cluster.external_ca().map(|_| site_certificates::IGNORED_BY_JOIN);
    let title =
        if node.roles.control_plane { "Join as a control plane with kubeadm" } else { "Join as a worker with kubeadm" };
    Ok(Step::on(node.name(), "join.node", title)
        .ensure_all(etcd_folder(draft, node))
        .ensure_all(state_dirs(cx, node)?)
        .ensure(KubeadmJoin {
            config,
            slots: slots.names(),
            cri_socket: runtime::of(cx.cluster).endpoint.to_owned(),
            control_plane: node.roles.control_plane,
            external_etcd: cx.cluster.etcd.kind != EtcdKind::Kubeadm,
            ignore: ignored(cx, node)?.into_iter().chain(given.map(str::to_owned)).collect(),
        })
        .timeout_s(600)
        .undo(Undo::Act { act: KubeadmReset { cri_socket: runtime::of(cx.cluster).endpoint.to_owned() }.into() })
        .build())
}

/// Before a node joins, checks on the first control plane whether a Node object of that name exists. A rollback deletes
/// the object that the join made, however far the join got, after the node's kubelet was stopped. Journals of earlier
/// versions contain the id `join.await-NODE`.
pub fn lookup(first: &PlannedHost<'_>, node: &PlannedHost<'_>) -> Step {
    let name = node.name();
    Step::on(first.name(), &format!("join.await-{name}"), &format!("Look up node {name}"))
        .ensure(NodeLookup { node: name.to_owned() })
        .domain(name)
        .retries(3)
        .undo(Undo::Act { act: NodeDelete { node: name.to_owned() }.into() })
        .build()
}

/// Labels, annotations and taints of a joined node, set from the first control plane.
pub fn register(first: &PlannedHost<'_>, node: &PlannedHost<'_>, lookup: &StepId) -> Step {
    let name = node.name();
    let id = format!("join.register-{name}");
    let step = Step::on(first.name(), &id, &format!("Set labels and taints of node {name}")).domain(name);
    step.ensure_all(node_object::of(node)).retries(3).undo(Undo::WithParent { step: lookup.clone() }).build()
}
