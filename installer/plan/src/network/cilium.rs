//! Cilium, by its chart: names as its agent and its chart give them (cilium 1.18 and 1.20: `pkg/defaults`, `pkg/datapath`,
//! `install/kubernetes`, `cilium-dbg/cmd/post_uninstall_cleanup.go`).

use super::traits::{NOTHING, NetworkTraits};

const VXLAN_PORT: u16 = 8472;
const GENEVE_PORT: u16 = 6081;
const WIREGUARD_PORT: u16 = 51871;
const WIREGUARD: &[&str] = &["wireguard"];

/// With Geneve in place of VXLAN.
pub const GENEVE: NetworkTraits = NetworkTraits { udp_ports: &[GENEVE_PORT], ..TRAITS };
/// Without a tunnel of a known port: native routing, or a port of the user's choice.
pub const NO_TUNNEL: NetworkTraits = NetworkTraits { udp_ports: &[], ..TRAITS };
/// With VXLAN, and encryption by WireGuard.
pub const VXLAN_ENCRYPTED: NetworkTraits =
    NetworkTraits { udp_ports: &[VXLAN_PORT, WIREGUARD_PORT], modules: WIREGUARD, ..TRAITS };
/// With Geneve, and encryption by WireGuard.
pub const GENEVE_ENCRYPTED: NetworkTraits =
    NetworkTraits { udp_ports: &[GENEVE_PORT, WIREGUARD_PORT], modules: WIREGUARD, ..TRAITS };
/// Without a tunnel of a known port, and with encryption by WireGuard.
pub const NO_TUNNEL_ENCRYPTED: NetworkTraits =
    NetworkTraits { udp_ports: &[WIREGUARD_PORT], modules: WIREGUARD, ..TRAITS };

/// With VXLAN; what it may have on a node, whatever its options are.
pub(super) const TRAITS: NetworkTraits = NetworkTraits {
    links: &["cilium_host", "cilium_net", "cilium_vxlan", "cilium_geneve", "cilium_wg0", "lxc_health"],
    pod_links: &["lxc"],
    unmanaged: &["cilium_*", "lxc????????????", "lxc_health"],
    // The sets are of native routing.
    chains: &["CILIUM_", "OLD_CILIUM_", "cilium_node_set_"],
    run: &["/run/cilium"],
    // `sysctlfix`, before the agent: systemd sets rp_filter of each new link.
    files: &["/etc/sysctl.d/99-zzz-override_cilium.conf"],
    // kernel.unprivileged_bpf_disabled is left out: once 1, the kernel refuses to set it to 0.
    sysctls: &[
        "kernel.timer_migration",
        "net.core.bpf_jit_enable",
        "net.ipv4.conf.all.rp_filter",
        "net.ipv4.fib_multipath_use_neigh",
        "net.ipv4.ip_early_demux",
        "net.ipv4.ip_local_reserved_ports",
    ],
    mounts: &["/run/cilium/cgroupv2"],
    pins: &["/sys/fs/bpf/cilium", "/sys/fs/bpf/tc/globals/cilium_*"],
    filters: &["cil_"],
    // To its proxy and from it.
    route_tables: &[2004, 2005],
    local_rule: Some(100),
    cni_programs: &["/opt/cni/bin/cilium-cni"],
    cni_configs: &["/etc/cni/net.d/05-cilium.conflist"],
    udp_ports: &[VXLAN_PORT],
    // The agents' own checks of each other.
    tcp_ports: &[4240],
    // Health of agent, Envoy and operator.
    local_ports: &[9234, 9878, 9879],
    chart: Some("cilium"),
    workloads: &["cilium", "cilium-envoy", "cilium-operator"],
    ..NOTHING
};
