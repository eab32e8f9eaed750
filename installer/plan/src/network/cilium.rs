//! Cilium, by its chart: names as its agent and its chart give them (cilium 1.18 and 1.20: `pkg/defaults`, `install/kubernetes`).

use super::traits::{NOTHING, NetworkTraits};

pub(super) const TRAITS: NetworkTraits = NetworkTraits {
    links: &["cilium_host", "cilium_net", "cilium_vxlan", "cilium_geneve", "cilium_wg0", "lxc_health"],
    pod_links: &["lxc"],
    chains: &["CILIUM_", "OLD_CILIUM_"],
    run: &["/run/cilium"],
    mounts: &["/run/cilium/cgroupv2"],
    pins: &["/sys/fs/bpf/cilium", "/sys/fs/bpf/tc/globals/cilium_*"],
    cni_programs: &["/opt/cni/bin/cilium-cni"],
    cni_configs: &["/etc/cni/net.d/05-cilium.conflist"],
    udp_ports: &[8472],
    // The agents' own checks of each other.
    tcp_ports: &[4240],
    chart: Some("cilium"),
    ..NOTHING
};
