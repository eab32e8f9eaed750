//! Cluster DNS on hosts whose resolver cannot be used by pods.
//!
//! CoreDNS forwards to the resolv.conf that kubelet gives it: with an empty one it exits ("no nameservers found"), with
//! a loopback address it queries itself. So kubelet gets systemd-resolved's file with the real servers, or a file
//! that kubexm writes with the usable ones. With no usable server, CoreDNS gets a Corefile without `forward` that
//! answers NXDOMAIN for names outside the cluster.

use std::net::IpAddr;

use kubexm_plan::op::KubeObject;
use kubexm_plan::{Facts, Step, StepId, Undo};
use kubexm_spec::Cluster;
use minijinja::context;
use serde_json::json;

use crate::context::{PlannedHost, is_host_local};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::templates::template;
use crate::{minors, paths, templates, yaml};

/// The path of the resolv.conf that kubelet gives to pods: one of the node's, or kubexm's if pods cannot use those.
///
/// systemd-resolved's file is used only without `extra.resolves`: whether those servers get into it depends on who
/// writes /etc/resolv.conf, and once they are in it the next plan would choose another file than the first.
///
/// Always set explicitly: kubeadm uses systemd-resolved's file wherever that service is active, whatever it contains.
pub fn kubelet_resolv_conf(cluster: &Cluster, node: &PlannedHost<'_>) -> &'static str {
    let has_local = |servers: &Option<Vec<IpAddr>>| servers.iter().flatten().any(|server| is_host_local(*server));
    let facts = node.facts;
    if node.upstream_nameservers(cluster).is_empty() {
        paths::KUBELET_RESOLV
    } else if !has_local(&facts.nameservers) {
        paths::RESOLV
    } else if cluster.extra.resolves.is_empty() && !has_local(&facts.resolved_nameservers) && behind_stub(facts) {
        paths::RESOLVED_RESOLV
    } else {
        paths::KUBELET_RESOLV
    }
}

fn behind_stub(facts: &Facts) -> bool {
    facts.resolved_nameservers.as_ref().is_some_and(|servers| !servers.is_empty())
}

/// Writes a resolv.conf for kubelet if pods cannot use the node's.
pub fn resolv_conf(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Option<Step>, RecipeError> {
    if kubelet_resolv_conf(draft.cx.cluster, node) != paths::KUBELET_RESOLV {
        return Ok(None);
    }
    let nameservers: Vec<String> =
        node.upstream_nameservers(draft.cx.cluster).iter().map(ToString::to_string).collect();
    let file = draft.template(paths::KUBELET_RESOLV, template!("resolv.conf"), context! { nameservers })?;
    Ok(Some(
        Step::on(node.name(), "dns.resolv-conf", "Give kubelet a resolv.conf that pods can use")
            .ensure(file)
            .undo(Undo::RestoreBefore)
            .build(),
    ))
}

/// CoreDNS' ConfigMap, which kubeadm has made.
pub const COREDNS: &str = "coredns";

/// Most servers that a resolv.conf can list (resolv.conf(5), MAXNS).
const MAX_SERVERS: usize = 3;

/// CoreDNS' ConfigMap with kubexm's own Corefile, which forwards to servers that the nodes have: one list for each. `minor`: of its
/// Kubernetes, if that is known; the Corefile of the oldest works with all.
pub fn config_map(cluster: &Cluster, servers: &[Vec<IpAddr>], minor: Option<u32>) -> Result<String, RecipeError> {
    let mut upstream: Vec<String> = Vec::new();
    for server in servers.iter().flatten().map(ToString::to_string) {
        if !upstream.contains(&server) && upstream.len() < MAX_SERVERS {
            upstream.push(server);
        }
    }
    let dns_domain = cluster.kubernetes.as_ref().ok_or(RecipeError::NoCluster)?.dns_domain.as_str();
    let leaves_out = minor.is_some_and(|minor| minor >= minors::CACHE_LEAVES_OUT);
    let corefile = templates::render(template!("Corefile"), context! { dns_domain, upstream, leaves_out })?;
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": COREDNS, "namespace": "kube-system"},
        "data": {"Corefile": corefile},
    });
    yaml::documents("CoreDNS config", &[object])
}

/// kubexm's own Corefile, if any node has no resolver that pods can use: CoreDNS may be scheduled on any node. It
/// forwards to the servers of the other nodes, or not at all. Applied before the pod network, so before the first
/// CoreDNS pod can start.
pub fn corefile(
    draft: &mut Draft<'_>,
    first: &PlannedHost<'_>,
    nodes: &[PlannedHost<'_>],
    init: &StepId,
) -> Result<Option<Step>, RecipeError> {
    let cx = draft.cx;
    let members = nodes.iter().filter(|n| n.in_cluster());
    let servers: Vec<Vec<IpAddr>> = members.map(|n| n.upstream_nameservers(cx.cluster)).collect();
    if servers.iter().all(|own| !own.is_empty()) {
        return Ok(None);
    }
    let text = draft.text(config_map(cx.cluster, &servers, Some(minors::of(cx, first)?))?);
    let step = Step::on(first.name(), "dns.corefile", "Configure CoreDNS for nodes without a resolver")
        .ensure(KubeObject::new(COREDNS, text))
        .retries(3)
        .undo(Undo::WithParent { step: init.clone() })
        .build();
    Ok(Some(draft.depends_on_all(step)))
}
