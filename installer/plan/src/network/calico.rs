//! Calico, by its own manifest: names as Felix, the CNI plugin and the manifest give them (calico 3.29 to 3.32: `felix/dataplane/linux`,
//! `felix/rules`, `felix/ipsets`, `node/pkg/nodeinit`, `manifests/calico-typha.yaml`).

use kubexm_spec::Program;

use super::traits::{NOTHING, NetworkTraits, PodRoutes};

/// Where kubexm writes down the networks of pods of a node with BIRD, before it gets any route of it: nothing else on the node has them once
/// its pods have ended, and another BIRD's routes have the same protocol. BIRD leaves its own when it ends.
pub const POD_NETWORKS: &str = "/etc/kubexm/pod-networks";

/// What it may have on a node, whatever its encapsulation; ports are those of VXLAN without typha, which stands between nodes and API servers
/// in large clusters.
pub(super) const TRAITS: NetworkTraits = NetworkTraits {
    links: &["vxlan.calico", "vxlan-v6.calico", "wireguard.cali", "wg-v6.cali", "bpfin.cali", "bpfout.cali"],
    pod_links: &["cali"],
    unmanaged: &["*.calico", "*.cali", "cali???????????"],
    // The sets: main ones, and those that are filled before they take a main one's place.
    chains: &["cali-", "cali40", "cali60", "cali4t", "cali6t"],
    rule_comments: &["cali:"],
    tables: &[("ip", "calico"), ("ip6", "calico")],
    run: &["/run/calico", "/run/nodeagent"],
    // What pods learn of their host, and the CNI plugin's log.
    state: &["/var/lib/calico", "/var/log/calico"],
    sysctls: &["net.netfilter.nf_conntrack_acct"],
    mounts: &["/run/calico/cgroup"],
    // Felix's. Those of BIRD are known by where they lead (decision 0117).
    route_protocols: &["80"],
    pod_routes: Some(&PodRoutes { networks: POD_NETWORKS, protocols: &["bird", "12"], links: &["tunl0"] }),
    cni_programs: &["/opt/cni/bin/calico", "/opt/cni/bin/calico-ipam"],
    cni_configs: &["/etc/cni/net.d/10-calico.conflist", "/etc/cni/net.d/calico-kubeconfig"],
    udp_ports: &[4789],
    // Health of Felix.
    local_ports: &[9099],
    manifest: Some(Program::CalicoManifest),
    tool: Some(Program::Calicoctl),
    feature_images: &["calico-cni", "calico-kube-controllers", "calico-node"],
    workloads: &["calico-kube-controllers", "calico-node", "calico-typha"],
    ..NOTHING
};

/// With typha, on some of the nodes.
pub const WITH_TYPHA: NetworkTraits = NetworkTraits {
    tcp_ports: &[5473],
    // Health of Felix and of typha.
    local_ports: &[9099, 9098],
    feature_images: &["calico-cni", "calico-kube-controllers", "calico-node", "calico-typha"],
    ..TRAITS
};

/// With BIRD: nodes tell each other their routes by BGP.
pub const BIRD: NetworkTraits = NetworkTraits { udp_ports: &[], tcp_ports: &[179], ..TRAITS };

/// With both.
pub const BIRD_WITH_TYPHA: NetworkTraits = NetworkTraits { udp_ports: &[], tcp_ports: &[179, 5473], ..WITH_TYPHA };

/// With BIRD, and IP in IP between nodes. Where the kernel has no such link BIRD would set routes without it, and say nothing.
pub const IPIP: NetworkTraits = NetworkTraits { modules: &["ipip"], unmanaged: WITH_TUNNEL, ..BIRD };

/// With all of it.
pub const IPIP_WITH_TYPHA: NetworkTraits =
    NetworkTraits { modules: &["ipip"], unmanaged: WITH_TUNNEL, ..BIRD_WITH_TYPHA };

const WITH_TUNNEL: &[&str] = &["*.calico", "*.cali", "cali???????????", "tunl0"];
