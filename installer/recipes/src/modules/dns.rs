//! Cluster DNS where the host's resolver is of no use.
//!
//! CoreDNS forwards to what kubelet hands it: an empty resolv.conf makes it die ("no nameservers found"), a loopback
//! address leads back to itself. So kubelet gets a file of ours with what is usable, and with nothing usable CoreDNS
//! gets a Corefile without `forward` that answers NXDOMAIN for names outside the cluster.

use kubexm_plan::op::{Dir, KubeObject};
use kubexm_plan::{Step, StepId, Undo};
use kubexm_spec::Cluster;
use minijinja::context;
use serde_json::json;

use crate::context::Node;
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::{paths, templates, yaml};

/// Whether the node's own /etc/resolv.conf (with `extra.resolves` on top) cannot be handed to pods as it is.
pub fn needs_own_resolv_conf(cluster: &Cluster, node: &Node<'_>) -> bool {
    let loopback = node.facts.nameservers.iter().flatten().any(|a| a.is_loopback() || a.is_unspecified());
    loopback || node.upstream_nameservers(cluster).is_empty()
}

/// kubelet's own resolv.conf, when the node's is of no use.
pub fn resolv_conf(draft: &mut Draft<'_>, node: &Node<'_>) -> Result<Option<Step>, RecipeError> {
    if !needs_own_resolv_conf(draft.cx.cluster, node) {
        return Ok(None);
    }
    let nameservers: Vec<String> =
        node.upstream_nameservers(draft.cx.cluster).iter().map(ToString::to_string).collect();
    let file = draft.template(paths::KUBELET_RESOLV, "resolv.conf", context! { nameservers })?;
    Ok(Some(
        Step::on(node.name(), "dns.resolv-conf", "Give kubelet a resolv.conf that is of use to pods")
            .ensure(Dir { path: "/etc/kubexm".to_owned(), mode: 0o755 })
            .ensure(file)
            .undo(Undo::RestoreBefore)
            .build(),
    ))
}

/// A Corefile without `forward`, when there is nowhere to forward to. Applied before the pod network, so before
/// the first CoreDNS pod can start.
pub fn corefile(draft: &mut Draft<'_>, node: &Node<'_>, init: &StepId) -> Result<Option<Step>, RecipeError> {
    let cx = draft.cx;
    if !node.upstream_nameservers(cx.cluster).is_empty() {
        return Ok(None);
    }
    let corefile = templates::render("Corefile", context! { dns_domain => cx.kubernetes()?.dns_domain.as_str() })?;
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "coredns", "namespace": "kube-system"},
        "data": {"Corefile": corefile},
    });
    let text = draft.text(yaml::documents("CoreDNS config", &[object])?);
    Ok(Some(
        Step::on(node.name(), "dns.corefile", "Configure CoreDNS without upstream servers")
            .ensure(KubeObject { name: "coredns".to_owned(), text })
            .retries(3)
            .undo(Undo::WithParent { step: init.clone() })
            .build(),
    ))
}
