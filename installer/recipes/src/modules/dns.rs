//! Cluster DNS where the host's resolver is of no use.
//!
//! CoreDNS forwards to what kubelet hands it: an empty resolv.conf makes it die ("no nameservers found"), a loopback
//! address leads back to itself. So kubelet gets the file of systemd-resolved with the real servers, or one of ours with
//! what is usable; and with nothing usable CoreDNS gets a Corefile without `forward` that answers NXDOMAIN for names outside the cluster.

use std::net::IpAddr;

use kubexm_plan::op::KubeObject;
use kubexm_plan::{Facts, Step, StepId, Undo};
use kubexm_spec::Cluster;
use minijinja::context;
use serde_json::json;

use crate::context::{Node, is_of_this_host};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::{paths, templates, yaml};

/// The file that kubelet hands to pods: one of the node's own, or ours where those are of no use.
///
/// systemd-resolved's only without `extra.resolves`: whether those reach it depends on who writes /etc/resolv.conf, and
/// once they do the next plan would choose another way than the first.
///
/// Always written out: kubeadm takes systemd-resolved's file wherever that service is active, whatever is in it.
pub fn kubelet_resolv_conf(cluster: &Cluster, node: &Node<'_>) -> &'static str {
    let own = |servers: &Option<Vec<IpAddr>>| servers.iter().flatten().any(|server| is_of_this_host(*server));
    let facts = node.facts;
    if node.upstream_nameservers(cluster).is_empty() {
        paths::KUBELET_RESOLV
    } else if !own(&facts.nameservers) {
        paths::RESOLV
    } else if cluster.extra.resolves.is_empty() && !own(&facts.resolved_nameservers) && behind_stub(facts) {
        paths::RESOLVED_RESOLV
    } else {
        paths::KUBELET_RESOLV
    }
}

fn behind_stub(facts: &Facts) -> bool {
    facts.resolved_nameservers.as_ref().is_some_and(|servers| !servers.is_empty())
}

/// kubelet's own resolv.conf, when the node's are of no use.
pub fn resolv_conf(draft: &mut Draft<'_>, node: &Node<'_>) -> Result<Option<Step>, RecipeError> {
    if kubelet_resolv_conf(draft.cx.cluster, node) != paths::KUBELET_RESOLV {
        return Ok(None);
    }
    let nameservers: Vec<String> =
        node.upstream_nameservers(draft.cx.cluster).iter().map(ToString::to_string).collect();
    let file = draft.template(paths::KUBELET_RESOLV, "resolv.conf", context! { nameservers })?;
    Ok(Some(
        Step::on(node.name(), "dns.resolv-conf", "Give kubelet a resolv.conf that is of use to pods")
            .ensure(file)
            .undo(Undo::RestoreBefore)
            .build(),
    ))
}

/// As many servers as a resolv.conf can name (resolv.conf(5), MAXNS).
const MAX_SERVERS: usize = 3;

/// A Corefile of ours, where a node has no resolver that is of use to pods: CoreDNS may be put on any of them. It forwards
/// to what the other nodes have, or not at all. Applied before the pod network, so before the first CoreDNS pod can start.
pub fn corefile(
    draft: &mut Draft<'_>,
    first: &Node<'_>,
    nodes: &[Node<'_>],
    init: &StepId,
) -> Result<Option<Step>, RecipeError> {
    let cx = draft.cx;
    let members = nodes.iter().filter(|n| n.in_cluster());
    let servers: Vec<Vec<IpAddr>> = members.map(|n| n.upstream_nameservers(cx.cluster)).collect();
    if servers.iter().all(|own| !own.is_empty()) {
        return Ok(None);
    }
    let mut upstream: Vec<String> = Vec::new();
    for server in servers.iter().flatten().map(ToString::to_string) {
        if !upstream.contains(&server) && upstream.len() < MAX_SERVERS {
            upstream.push(server);
        }
    }
    let dns_domain = cx.kubernetes()?.dns_domain.as_str();
    let corefile = templates::render("Corefile", context! { dns_domain, upstream })?;
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "coredns", "namespace": "kube-system"},
        "data": {"Corefile": corefile},
    });
    let text = draft.text(yaml::documents("CoreDNS config", &[object])?);
    let step = Step::on(first.name(), "dns.corefile", "Configure CoreDNS for nodes without a resolver")
        .ensure(KubeObject { name: "coredns".to_owned(), text })
        .retries(3)
        .undo(Undo::WithParent { step: init.clone() })
        .build();
    Ok(Some(draft.of_all(step)))
}
