//! Values of network plugins' charts: the cluster's own networks whatever a chart has of its own, and what an air gap and kubeadm's
//! labels require.

use std::net::IpAddr;

use ipnet::IpNet;
use kubexm_spec::cluster::{Cluster, Keyword, Network, NetworkPlugin};
use kubexm_spec::rendering::merged;
use serde_json::{Map, Value, json};

use crate::chart_release::ChartRelease;

/// The label of control planes since Kubernetes 1.24.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// Addresses that a node of a smaller pod network gets, as a prefix length.
const NODE_PREFIX: u8 = 24;
/// An address of TEST-NET-1 (RFC 5737), which stands for one of the site.
const ADDRESS: &str = "192.0.2.1";

/// The values of the plugin's chart; nothing where the release is another, since recipes make the plugin's objects.
pub(crate) fn fill(cluster: &Cluster, release: &mut ChartRelease) {
    let network = &cluster.network;
    let options = &network.options;
    if release.name != network.plugin.word() {
        return;
    }
    let Some((placeholders, defaults, own)) = values(network.plugin, network, options) else { return };
    release.placeholders = map(placeholders);
    release.defaults = map(defaults);
    // What kube-apiserver, kubeadm and the rest of the cluster are configured with is not the chart's to choose.
    release.values = merged(options.clone(), &map(own));
    if network.plugin == NetworkPlugin::Hybridnet {
        // Which of the chart's objects come first depends on helm's version, and these are refused before their webhook runs.
        release.values.insert("init".to_owned(), Value::Null);
    }
}

/// The same values for an add-on that is a plugin's chart of the catalogue: its user may override each of them, since
/// `spec.network` describes no such plugin.
pub(crate) fn fill_addon(cluster: &Cluster, chart: &str, release: &mut ChartRelease) {
    let Some(plugin) = NetworkPlugin::of_word(chart) else { return };
    let Some((placeholders, defaults, own)) = values(plugin, &cluster.network, &release.values) else { return };
    release.placeholders = map(placeholders);
    release.defaults = merged(map(defaults), &map(own));
}

/// Placeholders of one control plane that is the only node, defaults, and what is not the user's to choose where
/// `spec.network.plugin` names the plugin.
type Values = (Value, Value, Value);

fn values(plugin: NetworkPlugin, network: &Network, options: &Map<String, Value>) -> Option<Values> {
    match plugin {
        NetworkPlugin::Cilium => Some(cilium(network, options)),
        NetworkPlugin::KubeOvn => Some(kube_ovn(network)),
        NetworkPlugin::Hybridnet => Some(hybridnet(network)),
        NetworkPlugin::Flannel => Some(flannel(network)),
        // Calico comes as a manifest, which a recipe patches.
        NetworkPlugin::Calico | NetworkPlugin::None => None,
    }
}

/// Its chart has one network of each family; an empty one turns the family off.
fn flannel(network: &Network) -> Values {
    let (v4, v6) = by_family(network.pod_cidrs());
    let first = |all: &[IpNet]| all.first().map(ToString::to_string).unwrap_or_default();
    (json!({}), json!({}), json!({"podCidr": first(&v4), "podCidrv6": first(&v6)}))
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn cilium(network: &Network, options: &Map<String, Value>) -> Values {
    let (v4, v6) = by_family(network.pod_cidrs());
    let mut pool = Map::new();
    for (family, cidrs, prefix) in [("IPv4", &v4, NODE_PREFIX), ("IPv6", &v6, 120)] {
        let Some(first) = cidrs.first() else { continue };
        pool.insert(format!("clusterPool{family}PodCIDRList"), json!(cidrs));
        let longest = if family == "IPv4" { 30 } else { 126 };
        let size = prefix.max(first.prefix_len().saturating_add(2)).min(longest);
        pool.insert(format!("clusterPool{family}MaskSize"), json!(size));
    }
    let mut own = json!({
        "ipv4": {"enabled": !v4.is_empty()}, "ipv6": {"enabled": !v6.is_empty()}, "ipam": {"operator": pool},
    });
    let mut placeholders = json!({"operator": {"replicas": 1}});
    // Without kube-proxy its agents do not find the API server by the service's address.
    let replaces = options.get("kubeProxyReplacement").is_some_and(|value| *value == true || *value == "true");
    if replaces {
        placeholders["k8sServiceHost"] = json!(ADDRESS);
        placeholders["k8sServicePort"] = json!(6443);
    }
    // The range of a node is the one that it has in the API, which kubeadm's controller manager gives it: decision 0063.
    let mut defaults = json!({"ipam": {"mode": "kubernetes"}});
    if options.get("routingMode").is_some_and(|mode| mode == "native") {
        for (name, cidrs) in [("ipv4NativeRoutingCIDR", &v4), ("ipv6NativeRoutingCIDR", &v6)] {
            cidrs.first().into_iter().for_each(|cidr| defaults[name] = json!(cidr));
        }
    }
    if network.multus {
        // Else the agent renames every configuration but its own, and multus' with them.
        own["cni"] = json!({"exclusive": false});
        // An agent reads that when it starts.
        own["rollOutCiliumPods"] = json!(true);
    }
    (placeholders, defaults, own)
}

fn kube_ovn(network: &Network) -> Values {
    let (pods4, pods6) = by_family(network.pod_cidrs());
    let (services4, services6) = by_family(network.service_cidrs());
    let of = |pods: &[IpNet], services: &[IpNet]| {
        let gateways = joined(pods.iter().filter_map(first_address));
        json!({"POD_CIDR": joined(pods), "POD_GATEWAY": gateways, "SVC_CIDR": joined(services)})
    };
    let (stack, own) = match (pods4.is_empty(), pods6.is_empty()) {
        (false, false) => ("dual_stack", of(&[&*pods4, &pods6].concat(), &[&*services4, &services6].concat())),
        (true, false) => ("ipv6", of(&pods6, &services6)),
        _ => ("ipv4", of(&pods4, &services4)),
    };
    // Its pinger asks servers of the internet, and alarms about them.
    let silent = json!({"PINGER_EXTERNAL_ADDRESS": "", "PINGER_EXTERNAL_DOMAIN": ""});
    let defaults = json!({stack: silent, "networking": {"IFACE": network.interface.clone().unwrap_or_default()}});
    // replicaCount is of 1.12; later ones count MASTER_NODES
    (
        json!({"MASTER_NODES": ADDRESS, "replicaCount": 1}),
        defaults,
        json!({"networking": {"NET_STACK": stack}, stack: own}),
    )
}

fn hybridnet(network: &Network) -> Values {
    let version = match network.pod_cidr {
        IpNet::V4(_) => "4",
        IpNet::V6(_) => "6",
    };
    // The chart's own selector is a label that kubeadm sets no more.
    let selector = json!({ CONTROL_PLANE: "" });
    let defaults = json!({
        "manager": {"nodeSelector": selector},
        "webhook": {"nodeSelector": selector},
        "typha": {"nodeSelector": {"kubernetes.io/os": "linux"}},
        "daemon": {"preferVxlanInterfaces": network.interface.clone().unwrap_or_default()},
    });
    // Its replicas never share a node, so that more than there are nodes would wait for ever.
    let one = json!({"replicas": 1});
    (
        json!({"manager": one, "webhook": one, "typha": one}),
        defaults,
        json!({"init": {"cidr": network.pod_cidr, "ipVersion": version}}),
    )
}

fn by_family(all: impl Iterator<Item = IpNet>) -> (Vec<IpNet>, Vec<IpNet>) {
    all.partition(|cidr| matches!(cidr, IpNet::V4(_)))
}

fn joined(all: impl IntoIterator<Item = impl ToString>) -> String {
    all.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(",")
}

/// The first address after that of the network itself.
fn first_address(cidr: &IpNet) -> Option<IpAddr> {
    match cidr {
        IpNet::V4(cidr) => cidr.hosts().next().map(IpAddr::V4),
        // IPv6 has no address of the network: its first is the routers' anycast (RFC 4291, 2.6.1)
        IpNet::V6(cidr) => cidr.hosts().nth(1).map(IpAddr::V6),
    }
}
