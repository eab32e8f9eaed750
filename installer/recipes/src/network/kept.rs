//! What of a running network nothing changes afterwards: its networks of addresses, which every node and the API server were made with, and
//! options that its pods read once, or with which nodes do not reach each other's pods where they differ.

use ipnet::IpNet;
use kubexm_plan::ClusterFacts;
use kubexm_spec::cluster::{Cluster, Keyword as _, Network, NetworkPlugin};
use serde_json::{Map, Value};

use super::options::option;
use super::{cilium, flannel, kube_ovn, pool};

/// The options of a plugin that are kept, each with its default; none where all may be changed.
fn options(plugin: NetworkPlugin) -> Option<Vec<(&'static str, Value)>> {
    match plugin {
        // A pod reads all of them when it starts, and one with another backend leaves the others' nodes out.
        NetworkPlugin::Flannel => {
            Some(vec![("backend", flannel::BACKEND.into()), ("directRouting", false.into()), ("mtu", Value::Null)])
        }
        NetworkPlugin::Calico => Some(vec![
            ("encapsulation", pool::ENCAPSULATION.into()),
            ("blockSize", pool::BLOCK_SIZE.into()),
            ("natOutgoing", pool::NAT_OUTGOING.into()),
        ]),
        // Pods keep addresses that nobody routes any more; nodes that route otherwise do not reach each other's pods.
        NetworkPlugin::Cilium => {
            let mut kept = [cilium::ADDRESSES, cilium::ROUTING, cilium::TUNNEL]
                .map(|(name, default)| (name, default.into()))
                .to_vec();
            kept.push((cilium::TUNNEL_PORT, Value::Null));
            Some(kept)
        }
        NetworkPlugin::KubeOvn => {
            let mut kept = [kube_ovn::TUNNEL, kube_ovn::JOIN].map(|(name, default)| (name, default.into())).to_vec();
            // Read when the first subnet is made.
            kept.extend([("networking.EXCLUDE_IPS", Value::Null), ("func.ENABLE_LB", true.into())]);
            Some(kept)
        }
        _ => None,
    }
}

/// What was applied to it and is something else in cluster.yaml, as text for people.
pub(super) fn changed(cluster: &Cluster, running: &ClusterFacts) -> Vec<String> {
    let Some(network) = running.applied.as_ref().and_then(|applied| applied.cluster.pointer("/spec/network")) else {
        return Vec::new();
    };
    let mut changed = networks(cluster, network);
    // Whether it is another plugin's is seen on the nodes, too; `none` is what remains where an operator has replaced it.
    let Some(options) = options(cluster.network.plugin) else { return changed };
    let plugin = network.get("plugin").and_then(Value::as_str).unwrap_or(NetworkPlugin::default().word());
    let wanted = cluster.network.plugin.word();
    if plugin != wanted {
        changed.push(format!("spec.network.plugin is {wanted}, and the cluster has {plugin}"));
        return changed;
    }
    let nothing = Map::new();
    let before = network.get("options").and_then(Value::as_object).unwrap_or(&nothing);
    let differs = |(name, default): &(&str, Value)| {
        let value = |options: &Map<String, Value>| match *name == cilium::TUNNEL_PORT {
            true => cilium::tunnel_port(options).map_or(Value::Null, Value::from),
            false => option(options, name).unwrap_or(default).clone(),
        };
        let (before, now) = (value(before), value(&cluster.network.options));
        (before != now)
            .then(|| format!("spec.network.options.{name} is {}, and the cluster has {}", plain(&now), plain(&before)))
    };
    changed.extend(options.iter().filter_map(differs));
    changed
}

/// The networks of pods and of services. (Where the first control plane has its kubeadm configuration of before, preflight compares that.)
fn networks(cluster: &Cluster, before: &Value) -> Vec<String> {
    let (now, usual) = (&cluster.network, Network::default());
    let each: [(&str, Vec<IpNet>, Vec<IpNet>); 2] = [
        ("podCidr", now.pod_cidrs().collect(), usual.pod_cidrs().collect()),
        ("serviceCidr", now.service_cidrs().collect(), usual.service_cidrs().collect()),
    ];
    let differs = |(name, now, usual): (&str, Vec<IpNet>, Vec<IpNet>)| {
        let read = |value: &Value| value.as_str().and_then(|text| text.parse::<IpNet>().ok());
        let before: Vec<IpNet> = match before.get(name) {
            None | Some(Value::Null) => usual,
            Some(Value::Array(all)) => all.iter().filter_map(read).collect(),
            Some(value) => read(value).into_iter().collect(),
        };
        let text = || format!("spec.network.{name} is {}, and the cluster has {}", texts(&now), texts(&before));
        (before != now).then(text)
    };
    each.into_iter().filter_map(differs).collect()
}

fn texts(networks: &[IpNet]) -> String {
    networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "not given".to_owned(),
        value => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}
