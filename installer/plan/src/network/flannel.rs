//! flannel: names as flanneld and its CNI plugin give them (flannel 0.28, `Documentation/`, `pkg/backend`).

use kubexm_spec::ClusterImage;

use super::traits::{NOTHING, NetworkTraits, PodRoutes};

/// What it may have on a node, whatever its backend; ports are those of VXLAN.
pub(super) const TRAITS: NetworkTraits = NetworkTraits {
    links: &["cni0", "flannel.1", "flannel-v6.1", "flannel-wg", "flannel-wg-v6"],
    // The plugin `bridge` has eight hexadecimal digits in its names, docker seven.
    unmanaged: &["cni0", "flannel.1", "flannel-v6.1", "flannel-wg", "flannel-wg-v6", "veth????????"],
    bridges: &["cni0"],
    chains: &["FLANNEL-"],
    tables: &[("ip", "flannel-ipv4"), ("ip6", "flannel-ipv6")],
    run: &["/run/flannel"],
    // Routes over the host's own link are those of host-gw and of VXLAN with DirectRouting.
    pod_routes: Some(&PodRoutes { networks: "/run/flannel/subnet.env", protocols: &["boot"], links: &[] }),
    cni_programs: &["/opt/cni/bin/flannel"],
    cni_configs: &["/etc/cni/net.d/10-flannel.conflist"],
    namespaces: &["kube-flannel"],
    // Linux' own port for vxlan, not IANA's 4789.
    udp_ports: &[8472],
    images: &[ClusterImage::Flannel, ClusterImage::FlannelCniPlugin],
    ..NOTHING
};

/// With the backend host-gw packets of pods travel as they are.
pub const HOST_GW: NetworkTraits = NetworkTraits { udp_ports: &[], ..TRAITS };

/// With the backend wireguard. (With two stacks nodes also reach each other's 51821, by IPv6.)
pub const WIREGUARD: NetworkTraits = NetworkTraits { udp_ports: &[51820], modules: &["wireguard"], ..TRAITS };
