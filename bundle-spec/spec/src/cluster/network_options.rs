//! `spec.network.options`: which values of a plugin's chart they may be. A value that is not listed would be taken by helm in silence,
//! and nobody would know whether it does anything.

use serde_json::Value;

use super::network::NetworkPlugin;
use crate::yaml::{At, Mapping, ProblemKind, nearest};

/// What a value must be.
enum Kind {
    /// `true` or `false`.
    Flag,
    /// The same, or as a text, which is how older charts have it.
    FlagOrText,
    /// A whole number.
    Number,
    /// A text or a number.
    Text,
    /// A list of texts.
    Texts,
    /// One of these.
    Words(&'static [&'static str]),
    /// What Kubernetes itself has a format for: a list or a mapping.
    Object,
}

use Kind::{Flag, FlagOrText, Number, Object, Text, Texts, Words};

/// Of Cilium's chart (1.16 to 1.20) what changes how the network works; names are the chart's. What needs things outside of the cluster
/// (clouds, a second etcd, another cluster), what the cluster configures itself (addresses, the API's own) and images are left out.
const CILIUM: &[(&str, Kind)] = &[
    ("MTU", Number),
    ("autoDirectNodeRoutes", Flag),
    ("bandwidthManager.bbr", Flag),
    ("bandwidthManager.enabled", Flag),
    ("bgpControlPlane.enabled", Flag),
    ("bpf.enableTCX", Flag),
    ("bpf.hostLegacyRouting", Flag),
    ("bpf.lbExternalClusterIP", Flag),
    ("bpf.lbMapMax", Number),
    ("bpf.mapDynamicSizeRatio", Text),
    ("bpf.masquerade", Flag),
    ("bpf.monitorAggregation", Words(&["none", "low", "medium", "maximum"])),
    ("bpf.policyMapMax", Number),
    ("bpf.preallocateMaps", Flag),
    ("bpf.tproxy", Flag),
    ("cgroup.autoMount.enabled", Flag),
    ("cgroup.hostRoot", Text),
    ("cni.exclusive", Flag),
    ("debug.enabled", Flag),
    ("debug.verbose", Text),
    ("directRoutingSkipUnreachable", Flag),
    ("enableIPv4Masquerade", Flag),
    ("enableIPv6Masquerade", Flag),
    ("encryption.enabled", Flag),
    ("encryption.nodeEncryption", Flag),
    ("encryption.type", Words(&["ipsec", "wireguard"])),
    ("endpointHealthChecking.enabled", Flag),
    ("endpointRoutes.enabled", Flag),
    ("envoy.enabled", Flag),
    ("envoy.resources", Object),
    ("healthChecking", Flag),
    ("hostFirewall.enabled", Flag),
    ("hubble.enabled", Flag),
    ("hubble.metrics.enabled", Texts),
    ("hubble.relay.enabled", Flag),
    ("hubble.tls.auto.method", Words(&["helm", "cronJob"])),
    ("hubble.ui.enabled", Flag),
    ("installNoConntrackIptablesRules", Flag),
    ("ipam.mode", Words(&["kubernetes", "cluster-pool"])),
    ("ipv4NativeRoutingCIDR", Text),
    ("ipv6NativeRoutingCIDR", Text),
    ("k8sClientRateLimit.burst", Number),
    ("k8sClientRateLimit.qps", Number),
    ("kubeProxyReplacement", FlagOrText),
    ("kubeProxyReplacementHealthzBindAddr", Text),
    ("l2announcements.enabled", Flag),
    ("l7Proxy", Flag),
    ("loadBalancer.acceleration", Words(&["native", "best-effort", "testing-only", "disabled"])),
    ("loadBalancer.algorithm", Words(&["random", "maglev"])),
    ("loadBalancer.mode", Words(&["snat", "dsr", "hybrid"])),
    ("localRedirectPolicy", Flag),
    ("logSystemLoad", Flag),
    ("monitor.enabled", Flag),
    ("nodePort.addresses", Texts),
    ("nodePort.range", Text),
    ("operator.enabled", Flag),
    ("operator.replicas", Number),
    ("operator.resources", Object),
    ("policyEnforcementMode", Words(&["default", "always", "never"])),
    ("prometheus.enabled", Flag),
    ("prometheus.port", Number),
    ("resources", Object),
    ("rollOutCiliumPods", Flag),
    ("routingMode", Words(&["tunnel", "native"])),
    ("socketLB.enabled", Flag),
    ("socketLB.hostNamespaceOnly", Flag),
    ("sysctlfix.enabled", Flag),
    ("tolerations", Object),
    ("tunnelPort", Number),
    ("tunnelProtocol", Words(&["vxlan", "geneve"])),
    ("updateStrategy", Object),
];

/// Notes each option that the plugin does not have, or whose value it cannot be.
pub(super) fn check(map: &Mapping<'_>, plugin: NetworkPlugin) {
    if let (NetworkPlugin::Cilium, Some(options)) = (plugin, map.get("options")) {
        within(&options, "", CILIUM);
    }
}

fn within(at: &At<'_>, prefix: &str, all: &[(&'static str, Kind)]) {
    let Some(map) = at.open_mapping_quiet() else { return };
    for (key, at) in map.entries() {
        let path = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
        let below = format!("{path}.");
        if let Some((_, kind)) = all.iter().find(|(known, _)| *known == path) {
            value(&at, kind);
        } else if all.iter().any(|(known, _)| known.starts_with(&below)) && at.is_mapping() {
            within(&at, &path, all);
        } else {
            let near = nearest(&path, all.iter().map(|(known, _)| *known));
            let near = near.first().map(|near| format!("did you mean {near}? ")).unwrap_or_default();
            let hint = format!(
                "{near}A value that is not known here: leave it out, or install the chart yourself as an add-on, with plugin none"
            );
            at.fail(ProblemKind::UnknownKey, format!("unknown option {path:?}"), hint);
        }
    }
}

fn value(at: &At<'_>, kind: &Kind) {
    let found = at.json();
    let text = found.as_str();
    let (fits, wanted) = match kind {
        Flag => (found.is_boolean(), "true or false".to_owned()),
        FlagOrText => (found.is_boolean() || matches!(text, Some("true" | "false")), "true or false".to_owned()),
        Number => (found.is_u64(), "a whole number".to_owned()),
        Text => (found.is_number() || text.is_some(), "a text".to_owned()),
        Texts => (found.as_array().is_some_and(|all| all.iter().all(Value::is_string)), "a list of texts".to_owned()),
        Words(words) => (text.is_some_and(|text| words.contains(&text)), format!("one of {}", words.join(", "))),
        Object => (found.is_object() || found.is_array(), "a mapping or a list".to_owned()),
    };
    if !fits {
        at.fail(ProblemKind::WrongType, format!("expected {wanted}, got {found}"), "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_there_once_and_none_is_a_part_of_another() {
        assert!(CILIUM.is_sorted_by(|(one, _), (other, _)| one < other));
        for (path, _) in CILIUM {
            let below = format!("{path}.");
            assert!(!CILIUM.iter().any(|(other, _)| other.starts_with(&below)), "{path}");
        }
    }
}
