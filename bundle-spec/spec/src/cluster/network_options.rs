//! `spec.network.options`: which values of a plugin's chart they may be, and of a plugin without one, what its recipe makes of them. A value
//! that is not listed would be taken by helm in silence, and nobody would know whether it does anything.

use ipnet::{IpNet, Ipv4Net};
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
    /// A whole number between these two, or one of them.
    Within(u64, u64),
    /// A text or a number.
    Text,
    /// A list of texts.
    Texts,
    /// One of these.
    Words(&'static [&'static str]),
    /// An IPv4 network with addresses for 253 nodes or more: `100.64.0.0/16`.
    Network,
    /// A mapping.
    Map,
    /// What Kubernetes itself has a format for: a list or a mapping.
    Object,
}

use Kind::{Flag, FlagOrText, Map, Network, Number, Object, Text, Texts, Within, Words};

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

/// Of Calico what its recipe sets in upstream's manifest. Words are those of the operator's `Installation`; the pool's network, how a node
/// finds its address, images and the API's address are the cluster's own.
const CALICO: &[(&str, Kind)] = &[
    // Of a node's share of the pool, as a prefix length: upstream's limits.
    ("blockSize", Within(20, 32)),
    ("encapsulation", Words(&["VXLAN", "VXLANCrossSubnet", "IPIP", "IPIPCrossSubnet", "None"])),
    // IPv4 needs 576 of every link.
    ("mtu", Within(576, 65535)),
    ("natOutgoing", Flag),
    ("typha.enabled", Flag),
    // No more, says upstream.
    ("typha.replicas", Within(1, 20)),
];

/// Of flannel what its recipe writes into net-conf.json (Documentation/backends.md of flannel).
const FLANNEL: &[(&str, Kind)] =
    &[("backend", Words(&["vxlan", "host-gw", "wireguard"])), ("directRouting", Flag), ("mtu", Within(576, 65535))];

/// Of Kube-OVN's chart what both lines that the recipe knows have (1.12 and 1.14), by the chart's names. Left out are what needs something on
/// the hosts first (a link for VLANs, DPDK, a key for TLS), and what turns off what the cluster is checked by.
const KUBE_OVN: &[(&str, Kind)] = &[
    ("debug.ENABLE_MIRROR", Flag),
    ("func.ENABLE_EXTERNAL_VPC", Flag),
    ("func.ENABLE_KEEP_VM_IP", Flag),
    ("func.ENABLE_LB", Flag),
    ("func.ENABLE_LB_SVC", Flag),
    ("func.ENABLE_NAT_GW", Flag),
    ("func.ENABLE_NP", Flag),
    ("func.LS_CT_SKIP_DST_LPORT_IPS", Flag),
    ("func.LS_DNAT_MOD_DL_DST", Flag),
    ("func.U2O_INTERCONNECTION", Flag),
    ("ipv4.JOIN_CIDR", Network),
    ("ipv4.PINGER_EXTERNAL_ADDRESS", Text),
    ("ipv4.PINGER_EXTERNAL_DOMAIN", Text),
    ("kube-ovn-cni", Map),
    ("kube-ovn-controller", Map),
    ("kube-ovn-monitor", Map),
    ("kube-ovn-pinger", Map),
    ("networking.ENABLE_ECMP", Flag),
    ("networking.ENABLE_EIP_SNAT", Flag),
    ("networking.EXCLUDE_IPS", Text),
    ("networking.TUNNEL_TYPE", Words(&["geneve", "vxlan"])),
    ("ovn-central", Map),
    ("ovs-ovn", Map),
    ("performance.GC_INTERVAL", Number),
    ("performance.INSPECT_INTERVAL", Number),
    ("performance.OVS_VSCTL_CONCURRENCY", Number),
];

/// Of Hybridnet's chart (0.6.0), by the chart's names. Left out are addresses of pods, which are the cluster's own, links of VLANs and BGP, and
/// its clusters of clusters.
const HYBRIDNET: &[(&str, Kind)] = &[
    ("daemon.checkPodConnectivityFromHost", Flag),
    ("daemon.enableFelixPolicy", Flag),
    ("daemon.felix.resources", Map),
    ("daemon.resources", Map),
    ("daemon.vtepAddressCIDRs", Text),
    ("defaultIPRetain", Flag),
    ("manager.kubeClientBurst", Number),
    ("manager.kubeClientQPS", Number),
    ("manager.replicas", Within(1, 20)),
    ("manager.resources", Map),
    ("typha.replicas", Within(1, 20)),
    ("typha.resources", Map),
    ("vmIPRetain", Flag),
    ("webhook.replicas", Within(1, 20)),
    ("webhook.resources", Map),
];

/// The options of a plugin, and what else is possible where one is missing.
const fn of(plugin: NetworkPlugin) -> Option<(&'static [(&'static str, Kind)], &'static str)> {
    match plugin {
        NetworkPlugin::Cilium => Some((CILIUM, "install the chart yourself as an add-on, with plugin none")),
        NetworkPlugin::Calico => Some((CALICO, "install Calico yourself, with plugin none")),
        NetworkPlugin::Flannel => Some((FLANNEL, "install flannel yourself, with plugin none")),
        NetworkPlugin::KubeOvn => Some((KUBE_OVN, "install the chart yourself as an add-on, with plugin none")),
        NetworkPlugin::Hybridnet => Some((HYBRIDNET, "install the chart yourself as an add-on, with plugin none")),
        NetworkPlugin::None => None,
    }
}

/// Notes each option that the plugin does not have, or whose value it cannot be.
pub(super) fn check(map: &Mapping<'_>, plugin: NetworkPlugin) {
    if let (Some((all, instead)), Some(options)) = (of(plugin), map.get("options")) {
        within(&options, "", all, instead);
    }
}

/// Notes a block of Calico's that is larger than its pool.
pub(super) fn blocks(map: &Mapping<'_>, plugin: NetworkPlugin, pods: IpNet) {
    let Some(options) = map.get("options").filter(|_| plugin == NetworkPlugin::Calico) else { return };
    let Some(at) = options.open_mapping_quiet().and_then(|options| options.get("blockSize")) else { return };
    let least = pods.prefix_len();
    if let Some(size) = at.json().as_u64().filter(|size| (20..u64::from(least)).contains(size)) {
        let text = format!("a block of /{size} is larger than the network of pods, {pods}");
        at.bad(text, format!("name one from {least} to 32, or a larger podCidr"));
    }
}

/// Notes an option of flannel's that its backend does not have.
pub(super) fn backend(map: &Mapping<'_>, plugin: NetworkPlugin) {
    let Some(options) = map.get("options").filter(|_| plugin == NetworkPlugin::Flannel) else { return };
    let Some(options) = options.open_mapping_quiet() else { return };
    let backend = options.get("backend").and_then(|at| at.text_quiet().map(str::to_owned));
    let backend = backend.as_deref().unwrap_or("vxlan");
    if let Some(at) = options.get("directRouting").filter(|_| backend != "vxlan") {
        at.bad(format!("directRouting is an option of the backend vxlan, and this is {backend}"), "leave it out");
    }
    if let Some(at) = options.get("mtu").filter(|_| backend == "host-gw") {
        let hint = "leave it out: pods have the MTU of the link between the nodes";
        at.bad("the backend host-gw has no mtu", hint);
    }
}

fn within(at: &At<'_>, prefix: &str, all: &[(&'static str, Kind)], instead: &str) {
    let Some(map) = at.open_mapping_quiet() else { return };
    for (key, at) in map.entries() {
        let path = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
        let below = format!("{path}.");
        if let Some((_, kind)) = all.iter().find(|(known, _)| *known == path) {
            value(&at, kind);
        } else if all.iter().any(|(known, _)| known.starts_with(&below)) && at.is_mapping() {
            within(&at, &path, all, instead);
        } else {
            let near = || nearest(&path, all.iter().map(|(known, _)| *known)).into_iter().next();
            let near = if at.is_full() { None } else { near() };
            let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
            let hint = format!("{near}A value that is not known here: leave it out, or {instead}");
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
        Within(least, most) => (
            found.as_u64().is_some_and(|number| (*least..=*most).contains(&number)),
            format!("a whole number from {least} to {most}"),
        ),
        Text => (found.is_number() || text.is_some(), "a text".to_owned()),
        Texts => (found.as_array().is_some_and(|all| all.iter().all(Value::is_string)), "a list of texts".to_owned()),
        Words(words) => (text.is_some_and(|text| words.contains(&text)), format!("one of {}", words.join(", "))),
        Network => {
            let network = text.and_then(|text| text.parse::<Ipv4Net>().ok());
            let is_one = network.is_some_and(|network| network.trunc() == network && network.prefix_len() <= 24);
            (is_one, "an IPv4 network of /24 or larger (100.64.0.0/16)".to_owned())
        }
        Map => (found.is_object(), "a mapping".to_owned()),
        Object => (found.is_object() || found.is_array(), "a mapping or a list".to_owned()),
    };
    if !fits {
        at.fail(ProblemKind::WrongType, format!("expected {wanted}, got {found}"), "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Keyword as _;

    #[test]
    fn every_option_is_there_once_and_none_is_a_part_of_another() {
        for (all, _) in NetworkPlugin::ALL.iter().filter_map(|plugin| of(*plugin)) {
            assert!(all.is_sorted_by(|(one, _), (other, _)| one < other));
            for (path, _) in all {
                let below = format!("{path}.");
                assert!(!all.iter().any(|(other, _)| other.starts_with(&below)), "{path}");
            }
        }
    }
}
