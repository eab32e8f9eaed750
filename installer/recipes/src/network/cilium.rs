//! Pod network: Cilium, by its own chart. Its values are those of `spec.network.options`, over the cluster's own networks
//! (`kubexm_manifests::chart_network`) and over what only the site knows, which is computed here.

use kubexm_plan::network::NetworkTraits;
use kubexm_plan::network::cilium::{GENEVE, GENEVE_ENCRYPTED, NO_TUNNEL, NO_TUNNEL_ENCRYPTED, VXLAN_ENCRYPTED};
use kubexm_plan::{Step, Undo};
use kubexm_spec::cluster::Cluster;
use kubexm_spec::rendering::merged;
use serde_json::{Map, Value, json};

use super::options::{chosen, option};
use super::{chart, rollout};
use crate::context::PlannedHost;
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::release;

/// Whether Cilium does kube-proxy's work, so that there is none.
pub fn replaces_kube_proxy(cluster: &Cluster) -> bool {
    cluster.network.replaces_kube_proxy()
}

/// The chart's own defaults of options by which nodes reach each other's pods.
pub(super) const ROUTING: (&str, &str) = ("routingMode", "tunnel");
pub(super) const TUNNEL: (&str, &str) = ("tunnelProtocol", "vxlan");
pub(super) const TUNNEL_PORT: &str = "tunnelPort";
/// Ours (`kubexm_manifests::chart_network`).
pub(super) const ADDRESSES: (&str, &str) = ("ipam.mode", "kubernetes");

/// What it has on nodes with the options of a cluster; none where it is what it usually has.
pub(super) fn traits(cluster: &Cluster) -> Option<&'static NetworkTraits> {
    let options = &cluster.network.options;
    let is_native = chosen(cluster, ROUTING) == "native";
    // The port of a tunnel that the user chose is not asked for.
    let has_no_port = is_native || tunnel_port(options).is_some();
    let is_geneve = chosen(cluster, TUNNEL) == "geneve";
    match (has_no_port, is_geneve, is_encrypted(cluster)) {
        (false, false, false) => None,
        (false, false, true) => Some(&VXLAN_ENCRYPTED),
        (false, true, false) => Some(&GENEVE),
        (false, true, true) => Some(&GENEVE_ENCRYPTED),
        (true, _, false) => Some(&NO_TUNNEL),
        (true, _, true) => Some(&NO_TUNNEL_ENCRYPTED),
    }
}

/// Fails where the agents of a new cluster would wait for what nobody can make before them.
fn check_keys(cluster: &Cluster) -> Result<(), RecipeError> {
    let kind = option(&cluster.network.options, "encryption.type").and_then(Value::as_str);
    match is_encrypted(cluster) && kind != Some("wireguard") {
        false => Ok(()),
        true => Err(RecipeError::Unsupported {
            what: "Cilium's encryption by IPsec, the chart's default, in a new cluster".to_owned(),
            hint: "write `type: wireguard` in spec.network.options.encryption: keys of IPsec come in a Secret (cilium-ipsec-keys), \
                   which nobody can make before there is a network; turn it on when the cluster is there"
                .to_owned(),
        }),
    }
}

/// The port of the tunnel where it is another than its protocol has; the chart's 0 stands for that one.
pub(super) fn tunnel_port(options: &Map<String, Value>) -> Option<u64> {
    let usual = match option(options, TUNNEL.0).and_then(Value::as_str) {
        Some("geneve") => 6081,
        _ => 8472,
    };
    option(options, TUNNEL_PORT).and_then(Value::as_u64).filter(|port| ![0, usual].contains(port))
}

fn is_encrypted(cluster: &Cluster) -> bool {
    option(&cluster.network.options, "encryption.enabled").is_some_and(|value| *value == true)
}

/// Installs the chart. The agents ask the API by the control plane's name, as kube-proxy and flannel do: without kube-proxy nobody else would
/// lead them to the address of its service, and with it they need not wait for its rules. Pods of the host's network have the host's
/// /etc/hosts.
pub fn step(draft: &mut Draft<'_>, first: &PlannedHost<'_>, undo: Undo) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    if !first.facts.joined {
        check_keys(cx.cluster)?;
    }
    let (chart, site) = chart::of(cx)?;
    // Agents and operator read their configuration when they start.
    let rolled = json!({
        "rollOutCiliumPods": true,
        "operator": {"rollOutPods": true},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": rollout::AT_ONCE}},
    });
    let rolled = rolled.as_object().cloned().unwrap_or_default();
    let mut site: Map<String, Value> = merged(rolled, &site);
    site.insert("k8sServiceHost".to_owned(), cx.control_plane_name().into());
    site.insert("k8sServicePort".to_owned(), cx.cluster.control_plane_port().into());
    if let Some(interface) = &cx.cluster.network.interface {
        site.insert("devices".to_owned(), json!([interface]));
    }
    let mut op = chart::op(draft, first, &chart, &site)?;
    // The agents of all nodes may have to be replaced.
    op.wait_s = rollout::wait(cx.cluster);
    let timeout = release::timeout(op.wait_s);
    let step = chart::step(first, "network.cilium").ensure(op).timeout_s(timeout).undo(undo).build();
    Ok(draft.depends_on_all(step))
}
