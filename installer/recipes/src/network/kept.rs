//! Options of a running network that nothing changes afterwards: its pods read them once, or nodes with different ones do not reach each
//! other's pods.

use kubexm_plan::ClusterFacts;
use kubexm_spec::cluster::{Cluster, Keyword as _, NetworkPlugin};
use serde_json::{Map, Value};

use super::{flannel, pool};

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
        _ => None,
    }
}

/// What was applied to it and is something else in cluster.yaml, as text for people.
pub(super) fn changed(cluster: &Cluster, running: &ClusterFacts) -> Vec<String> {
    let Some(options) = options(cluster.network.plugin) else { return Vec::new() };
    let Some(network) = running.applied.as_ref().and_then(|applied| applied.cluster.pointer("/spec/network")) else {
        return Vec::new();
    };
    let plugin = network.get("plugin").and_then(Value::as_str).unwrap_or(NetworkPlugin::default().word());
    let wanted = cluster.network.plugin.word();
    if plugin != wanted {
        return vec![format!("spec.network.plugin is {wanted}, and the cluster has {plugin}")];
    }
    let nothing = Map::new();
    let before = network.get("options").and_then(Value::as_object).unwrap_or(&nothing);
    let differs = |(name, default): &(&str, Value)| {
        let value = |options: &Map<String, Value>| options.get(*name).unwrap_or(default).clone();
        let (before, now) = (value(before), value(&cluster.network.options));
        (before != now)
            .then(|| format!("spec.network.options.{name} is {}, and the cluster has {}", plain(&now), plain(&before)))
    };
    options.iter().filter_map(differs).collect()
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "not given".to_owned(),
        value => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}
