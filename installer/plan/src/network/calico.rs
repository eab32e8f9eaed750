//! Calico, by its own manifest: names as Felix, the CNI plugin and the manifest give them (calico 3.29 to 3.32: `felix/dataplane/linux`,
//! `felix/rules`, `felix/ipsets`, `node/pkg/nodeinit`, `manifests/calico-typha.yaml`).

use kubexm_spec::Program;

use super::traits::{NOTHING, NetworkTraits};

/// Without typha, which stands between nodes and API servers in large clusters.
pub(super) const TRAITS: NetworkTraits = NetworkTraits {
    links: &["vxlan.calico", "vxlan-v6.calico", "wireguard.cali", "wg-v6.cali", "bpfin.cali", "bpfout.cali"],
    pod_links: &["cali"],
    // The sets: main ones, and those that are filled before they take a main one's place.
    chains: &["cali-", "cali40", "cali60", "cali4t", "cali6t"],
    rule_comments: &["cali:"],
    tables: &[("ip", "calico"), ("ip6", "calico")],
    run: &["/run/calico", "/run/nodeagent"],
    // What pods learn of their host, and the CNI plugin's log.
    state: &["/var/lib/calico", "/var/log/calico"],
    sysctls: &["net.netfilter.nf_conntrack_acct"],
    mounts: &["/run/calico/cgroup"],
    // Felix's. Without VXLAN there would be BIRD's as well (decision 0074).
    route_protocols: &["80"],
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
