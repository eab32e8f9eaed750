//! flannel with VXLAN: names as flanneld and its CNI plugin give them (flannel 0.28, `Documentation/`).

use kubexm_spec::ClusterImage;

use super::traits::{NOTHING, NetworkTraits};

pub(super) const TRAITS: NetworkTraits = NetworkTraits {
    links: &["cni0", "flannel.1", "flannel-v6.1"],
    bridges: &["cni0"],
    chains: &["FLANNEL-"],
    tables: &[("ip", "flannel-ipv4"), ("ip6", "flannel-ipv6")],
    run: &["/run/flannel"],
    cni_programs: &["/opt/cni/bin/flannel"],
    cni_configs: &["/etc/cni/net.d/10-flannel.conflist"],
    namespaces: &["kube-flannel"],
    // Linux' own port for vxlan, not IANA's 4789.
    udp_ports: &[8472],
    images: &[ClusterImage::Flannel, ClusterImage::FlannelCniPlugin],
    ..NOTHING
};
