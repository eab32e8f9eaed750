//! Kubernetes.

use super::super::fields::{carry, lists, never, numbers, same};
use super::super::source::Place;
use super::super::yaml::{Map, Yaml};
use super::super::{scalar, secrets};

/// Distributions that KubeKey knows beside Kubernetes, as a type or behind the version.
const OTHERS: [&str; 2] = ["k3s", "k8e"];
const CHART: &str = "it is not installed by this program; carry its chart with spec.bundle.extraCharts";

pub(super) fn kubernetes(from: &Place<'_>) -> Map {
    let mut to = Map::default();
    if let Some(at) = from.get("type")
        && at.text() != Some("kubernetes")
    {
        at.leave("only Kubernetes itself is installed");
    }
    carry(from, "version", &mut to, "version", |at| {
        let text = at.text()?;
        let other = text.split_once('-').filter(|(_, kind)| OTHERS.contains(kind));
        if let Some((_, kind)) = other {
            at.leave(format!("{kind} is not installed by this program: Kubernetes of that version is written"));
        }
        Some(other.map_or(text, |(version, _)| version).into())
    });
    same(from, &mut to, &[("clusterName", "clusterName"), ("dnsDomain", "dnsDomain")]);
    lists(from, &mut to, &[("apiserverCertExtraSans", "certSANs")]);
    carry(from, "autoRenewCerts", &mut to, "autoRenewCerts", |at| at.is_true().then_some(Yaml::Bool(true)));
    if from.get("nodelocaldns").is_some_and(|at| at.is_true()) {
        to.put("nodelocaldns", Map::default());
    }
    if let Some(at) = from.at(&["audit", "enabled"])
        && at.is_true()
    {
        to.put("audit", Map::default());
        at.leave("KubeKey sends what is audited to a webhook; here it is logged on the control planes");
    }
    carry(from, "featureGates", &mut to, "featureGates", |at| Some(gates(at).into()));
    for (old, new) in [
        ("apiserverArgs", "apiServerArgs"),
        ("controllerManagerArgs", "controllerManagerArgs"),
        ("schedulerArgs", "schedulerArgs"),
    ] {
        carry(from, old, &mut to, new, |at| Some(args(at).into()));
    }
    for name in ["kubeletArgs", "kubeProxyArgs"] {
        if let Some(at) = from.get(name) {
            at.leave("flags of this kind are deprecated upstream: write fields of kubelet or kubeProxy (their configuration)");
        }
    }
    kubelet(from, &mut to);
    kube_proxy(from, &mut to);
    for (name, size) in [("nodeCidrMaskSize", 24), ("nodeCidrMaskSizeIPv6", 64)] {
        if let Some(at) = from.get(name)
            && at.number().is_some_and(|number| number != size)
        {
            at.leave(format!("every node gets a /{size} of the pod network"));
        }
    }
    never(
        from,
        &["nodeFeatureDiscovery", "enabled"],
        "write it as an add-on: addons: [{name: nfd, type: helm, source: {catalogue: node-feature-discovery}}]",
    );
    never(from, &["kata", "enabled"], CHART);
    never(from, &["nvidiaRuntime"], "the runtime gets no further handlers; see spec.runtime.extraConfig");
    never(
        from,
        &["disableKubeProxy"],
        "only Cilium can be in the place of kube-proxy: write network: {plugin: cilium, options: {kubeProxyReplacement: true}}",
    );
    to
}

/// A value set both by a field and by the configuration beside it: KubeKey uses the configuration's.
fn overruled(from: &Place<'_>, field: &str, config: &Map, key: &str) -> bool {
    let (Some(at), Some(value)) = (from.get(field), config.get(key)) else { return false };
    let same = match at.text().map(scalar::plain) {
        Some(said) => said == *value,
        None => false,
    };
    if !same {
        at.leave(format!("{key} in the configuration beside it has another value, and KubeKey uses that one"));
    }
    true
}

/// A configuration, unchanged.
fn config(from: &Place<'_>, name: &str) -> Map {
    let Some(at) = from.get(name) else { return Map::default() };
    match at.raw() {
        Yaml::Map(mut map) => {
            map.fields.retain(|field| !matches!(field.name.as_str(), "apiVersion" | "kind"));
            map
        }
        _ => {
            at.leave("it is not a block of fields");
            Map::default()
        }
    }
}

fn kubelet(from: &Place<'_>, to: &mut Map) {
    let mut kubelet = config(from, "kubeletConfiguration");
    if let Some(at) = from.at(&["kubeletConfiguration", "staticPodURLHeader"]) {
        kubelet.fields.retain(|field| field.name != "staticPodURLHeader");
        at.leave(secrets::LEFT_OUT);
    }
    if !overruled(from, "maxPods", &kubelet, "maxPods") {
        numbers(from, to, &[("maxPods", "maxPods")]);
    }
    if !overruled(from, "podPidsLimit", &kubelet, "podPidsLimit") {
        carry(from, "podPidsLimit", &mut kubelet, "podPidsLimit", |at| match at.text().map(scalar::plain)? {
            Yaml::Int(0) => None,
            number @ Yaml::Int(_) => Some(number),
            _ => {
                at.leave("it is not a whole number");
                None
            }
        });
    }
    to.set("kubelet", kubelet);
    if let Some(at) = from.get("kubeletConfiguration") {
        to.came_from("kubelet", at.origin());
    }
}

fn kube_proxy(from: &Place<'_>, to: &mut Map) {
    let mut proxy = config(from, "kubeProxyConfiguration");
    if overruled(from, "proxyMode", &proxy, "mode") || proxy.get("mode").is_some() {
        let at = from.at(&["kubeProxyConfiguration", "mode"]);
        to.maybe("proxyMode", proxy.get("mode").cloned());
        if let Some(at) = at {
            to.came_from("proxyMode", at.origin());
        }
        proxy.fields.retain(|field| field.name != "mode");
    } else {
        same(from, to, &[("proxyMode", "proxyMode")]);
    }
    if let Some(at) = from.get("masqueradeAll") {
        let wanted = at.is_true();
        match proxy.get("iptables") {
            // KubeKey takes the whole block from where it is said.
            Some(block) => {
                let said = match block {
                    Yaml::Map(map) => map.get("masqueradeAll").cloned(),
                    _ => None,
                };
                if said.unwrap_or(Yaml::Bool(false)) != Yaml::Bool(wanted) {
                    at.leave("kubeProxyConfiguration.iptables has another value, and KubeKey uses that one");
                }
            }
            None if wanted => {
                let mut iptables = Map::default();
                iptables.put("masqueradeAll", true);
                proxy.set("iptables", iptables);
                proxy.came_from("iptables", at.origin());
            }
            None => {}
        }
    }
    to.set("kubeProxy", proxy);
    if let Some(at) = from.get("kubeProxyConfiguration") {
        to.came_from("kubeProxy", at.origin());
    }
}

fn gates(from: &Place<'_>) -> Map {
    let mut gates = Map::default();
    for (name, at) in from.fields() {
        gates.maybe(name, at.truth());
        gates.came_from(name, at.origin());
    }
    gates
}

/// `- --flag=value`, `- flag=value`; of a repeated flag the last one counts (`util.GetArgs`).
fn args(from: &Place<'_>) -> Map {
    let mut args = Map::default();
    let mut places: Vec<(&str, Place<'_>)> = Vec::new();
    for at in from.items() {
        let Some((flag, value)) = at.text().and_then(|text| text.trim_start_matches('-').split_once('=')) else {
            at.leave("it is not a flag with a value, and KubeKey leaves it out, too");
            continue;
        };
        if secrets::is_name(flag) {
            at.leave(format!("{flag}: {}", secrets::LEFT_OUT));
            continue;
        }
        if let Some((_, before)) = places.iter().rfind(|(known, _)| *known == flag)
            && args.get(flag) != Some(&Yaml::from(value))
        {
            before.leave(format!("{flag} is repeated in line {}, and the last one counts", at.line()));
        }
        args.put(flag, value);
        args.came_from(flag, at.origin());
        places.push((flag, at));
    }
    args
}
