//! Hybridnet, by its chart: names as its daemon, its chart and the Felix in its image give them (hybridnet 0.8.0: `pkg/daemon`, `pkg/constants`,
//! `charts/hybridnet`; chart 0.6.0).

use super::traits::{MarkedRules, NOTHING, NetworkTraits};

pub(super) const TRAITS: NetworkTraits = NetworkTraits {
    // Links, rules and tables have names and numbers that others may have, too.
    mark: Some("/opt/cni/bin/hybridnet"),
    pod_links: &["hybr"],
    pod_digits: Some(11),
    // After the name of the host's link that it goes over.
    link_ends: &[".vxlan4"],
    unmanaged: &["*.vxlan4", "hybr???????????"],
    // The sets, of both families; and Felix's, which are Calico's.
    chains: &["HYBRIDNET-", "inet6:HYBRIDNET-", "cali-", "cali40", "cali60", "cali4t", "cali6t"],
    rule_comments: &["hybridnet ", "cali:"],
    // Of pods of the node, of the subnets behind the tunnel, and of what answers nodes.
    route_tables: &[39999, 40000, 40001],
    marked_rules: Some(MarkedRules { mask: 0x4040, tables: (10_000, 39_999) }),
    files: &["/run/cni/hybridnet.sock"],
    sysctls: &[
        "net.ipv4.conf.all.arp_filter",
        "net.ipv4.conf.all.rp_filter",
        "net.ipv4.conf.default.rp_filter",
        "net.ipv4.neigh.default.gc_thresh1",
        "net.ipv4.neigh.default.gc_thresh2",
        "net.ipv4.neigh.default.gc_thresh3",
        "net.ipv6.conf.all.forwarding",
        "net.ipv6.neigh.default.gc_thresh1",
        "net.ipv6.neigh.default.gc_thresh2",
        "net.ipv6.neigh.default.gc_thresh3",
    ],
    cni_programs: &["/opt/cni/bin/hybridnet"],
    cni_configs: &["/etc/cni/net.d/06-hybridnet.conflist"],
    modules: &["vxlan"],
    udp_ports: &[8472],
    // typha.
    tcp_ports: &[5473],
    // Health of Felix and of typha on their own host; on every address the daemon's metrics, its health and its BGP server.
    local_ports: &[9098, 9099, 8091, 11021, 50051],
    // The webhook; metrics of the manager.
    control_plane_ports: &[9898],
    control_plane_local_ports: &[9899],
    chart: Some("hybridnet"),
    workloads: &["calico-typha", "hybridnet-daemon", "hybridnet-manager", "hybridnet-webhook"],
    ..NOTHING
};
