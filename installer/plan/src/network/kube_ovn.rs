//! Kube-OVN, by its chart: names as its programs and its chart give them (kube-ovn 1.12 and 1.14: `pkg/daemon`, `pkg/util/const.go`,
//! `dist/images`, `charts/kube-ovn`), and as Open vSwitch's kernel module has them.

use super::traits::{Datapath, NOTHING, NetworkTraits};

/// Folder for the CNI plugins that its pods install on a node: they have older copies of some of the bundle's, which stay out of
/// /opt/cni/bin.
pub const PLUGINS: &str = "/opt/cni/kube-ovn";
/// Its own plugin, where the runtime looks for it.
pub const PLUGIN: &str = "/opt/cni/bin/kube-ovn";
/// Label of the control planes that its databases run on.
pub const MASTER: (&str, &str) = ("kube-ovn/role", "master");
/// Its part of what would be the pods' network: addresses of nodes, from which pods are reached.
pub const JOIN_CIDR: &str = "100.64.0.0/16";

/// What it may have on a node, whatever its tunnels; ports are those of Geneve.
pub(super) const TRAITS: NetworkTraits = NetworkTraits {
    // Its switch has the names that a host's own Open vSwitch has, too.
    mark: Some(PLUGIN),
    unmanaged: &["ovs-system", "br-int", "ovn0", "mirror0", "genev_sys_*", "vxlan_sys_*", "????????????_h"],
    // The sets: main ones of both families, and those that are filled before they take a main one's place.
    chains: &[
        "OVN-PREROUTING",
        "OVN-POSTROUTING",
        "OVN-OUTPUT",
        "OVN-MASQUERADE",
        "OVN-NAT-POLICY",
        "OVN-NAT-PSUBNET-",
        "ovn40",
        "ovn60",
        "ovn4t",
        "ovn6t",
    ],
    rule_comments: &["ovn-subnet-gateway,", "kube-ovn "],
    datapath: Some(&Datapath {
        name: "ovs-system",
        tunnels: &["genev_sys_6081", "vxlan_sys_4789"],
        pods: "_h",
        daemons: &["ovs-vswitchd", "ovsdb-server"],
        any_links: &["ovs-system", "ovs-netdev"],
        folders: &["/run/openvswitch", "/run/ovn", "/var/log/openvswitch", "/var/log/ovn"],
        // Of its daemon, and of `ovs-ctl enable-protocol`.
        rules: &[
            "OUTPUT -p udp -m udp --dport 6081 -j MARK --set-xmark 0x0/0xffffffff",
            "OUTPUT -p udp -m udp --dport 4789 -j MARK --set-xmark 0x0/0xffffffff",
            "INPUT -p udp -m udp --dport 6081 -j ACCEPT",
        ],
    }),
    // Databases of the switch and of the network.
    state: &["/etc/origin/openvswitch", "/etc/origin/ovn", "/var/log/kube-ovn"],
    // 1.12 installs it whatever its values are.
    files: &["/usr/local/bin/kubectl-ko"],
    sysctls: &["net.ipv4.conf.all.rp_filter", "net.ipv6.conf.all.forwarding"],
    cni_programs: &[PLUGINS],
    cni_configs: &["/etc/cni/net.d/01-kube-ovn.conflist"],
    // 1.12 ends without either, whatever its tunnels are.
    modules: &["openvswitch", "geneve"],
    udp_ports: &[6081],
    // Controller and daemon: metrics and health.
    local_ports: &[10660, 10665],
    // The two databases; what their members would have among each other, and the monitor.
    control_plane_ports: &[6641, 6642],
    control_plane_local_ports: &[6643, 6644, 10661],
    chart: Some("kube-ovn"),
    workloads: &[
        "kube-ovn-cni",
        "kube-ovn-controller",
        "kube-ovn-monitor",
        "kube-ovn-pinger",
        "ovn-central",
        "ovs-ovn",
    ],
    ..NOTHING
};

/// With VXLAN between nodes.
pub const VXLAN: NetworkTraits =
    NetworkTraits { udp_ports: &[4789], modules: &["openvswitch", "geneve", "vxlan"], ..TRAITS };
