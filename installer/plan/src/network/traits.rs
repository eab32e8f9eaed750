//! Traits of a pod network.

use kubexm_spec::{ClusterImage, Program};

/// What a pod network has on a node. What every cluster has, whatever its network, is [`CLUSTER`].
#[derive(Clone, Copy, Debug)]
pub struct NetworkTraits {
    /// What only this network's pods or its recipe put on a node, where others have some of the names below: then they are its own only on a
    /// host with this.
    pub mark: Option<&'static str>,
    /// Full names of links.
    pub links: &'static [&'static str],
    /// Prefixes of links of pods that are attached to no bridge; the rest of their names is hexadecimal digits.
    pub pod_links: &'static [&'static str],
    /// How many digits they have; any number if none is named.
    pub pod_digits: Option<usize>,
    /// How links end that are called after the host's link below them: `.vxlan4` of `eth0.vxlan4`.
    pub link_ends: &'static [&'static str],
    /// Names of its links and of those of its pods, as patterns (`*`, `?`) that match few others: what the host's network managers leave alone.
    pub unmanaged: &'static [&'static str],
    /// Its switch in the kernel, if that is one which outlives its programs.
    pub datapath: Option<&'static Datapath>,
    /// Bridges: a veth attached to one belongs to a pod.
    pub bridges: &'static [&'static str],
    /// Prefixes of the names of packet-filter chains and sets.
    pub chains: &'static [&'static str],
    /// How the comments begin of its rules in chains of others (`-m comment --comment`).
    pub rule_comments: &'static [&'static str],
    /// nftables tables: family and name.
    pub tables: &'static [(&'static str, &'static str)],
    /// Folders below /run that its pods write.
    pub run: &'static [&'static str],
    /// Folders anywhere else that its pods fill.
    pub state: &'static [&'static str],
    /// Files that its pods write anywhere else.
    pub files: &'static [&'static str],
    /// Kernel parameters that its pods set.
    pub sysctls: &'static [&'static str],
    /// What its pods mount on the host, in those folders.
    pub mounts: &'static [&'static str],
    /// Programs and maps that its pods pin in the BPF file system: folders, and files by `FOLDER/PREFIX*`. Programs that are pinned
    /// nowhere are detached.
    pub pins: &'static [&'static str],
    /// Prefixes of the programs that its pods attach to links as filters of `tc`, where the kernel knows no links of programs (before 6.6).
    pub filters: &'static [&'static str],
    /// Protocols (`proto` of `ip route`) that only its programs use for routes in the main table.
    pub route_protocols: &'static [&'static str],
    /// What else it may have there, with a protocol that others use, too.
    pub pod_routes: Option<&'static PodRoutes>,
    /// Tables of routes that nobody else uses: rules that look them up go with them.
    pub route_tables: &'static [u32],
    /// Its rules that look up tables of changing numbers.
    pub marked_rules: Option<MarkedRules>,
    /// To which preference it moves the kernel's own rule of local addresses.
    pub local_rule: Option<u32>,
    /// CNI plugins that its pods install.
    pub cni_programs: &'static [&'static str],
    /// Network configurations that its pods write for the runtime.
    pub cni_configs: &'static [&'static str],
    /// Namespaces of its own pods.
    pub namespaces: &'static [&'static str],
    /// Its workloads in kube-system, where sites have pods of their own.
    pub workloads: &'static [&'static str],
    /// Modules of the kernel that nodes need for it.
    pub modules: &'static [&'static str],
    /// UDP ports for traffic between nodes; the kernel listens on them, not a process.
    pub udp_ports: &'static [u16],
    /// TCP ports on which nodes reach each other.
    pub tcp_ports: &'static [u16],
    /// TCP ports on which its pods listen for their own host only.
    pub local_ports: &'static [u16],
    /// TCP ports on which nodes reach control planes.
    pub control_plane_ports: &'static [u16],
    /// TCP ports on which its pods listen on control planes, for nobody else's use.
    pub control_plane_local_ports: &'static [u16],
    /// Images that every node needs.
    pub images: &'static [ClusterImage],
    /// The chart that it is installed from; every node needs its images.
    pub chart: Option<&'static str>,
    /// Upstream's manifest that it is installed from.
    pub manifest: Option<Program>,
    /// Its tool for administrators, which cluster.yaml may leave out.
    pub tool: Option<Program>,
    /// Images of the catalogue's feature of the same name that every node needs.
    pub feature_images: &'static [&'static str],
}

/// How routes and addresses of a network are known whose protocol is not its own: they are those of a part of its networks of pods.
#[derive(Clone, Copy, Debug)]
pub struct PodRoutes {
    /// File with these networks: `FLANNEL_NETWORK=`, several with commas between them.
    pub networks: &'static str,
    /// `boot` is that of routes that were added without one.
    pub protocols: &'static [&'static str],
    /// Links that the kernel has made and keeps, to which its pods give an address of their node's share.
    pub links: &'static [&'static str],
}

/// How rules of routing are known whose preferences and tables are the first free ones: by the bits of the mark that they ask for, none of
/// which may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkedRules {
    /// The bits.
    pub mask: u32,
    /// The lowest and the highest number of their tables.
    pub tables: (u32, u32),
}

/// A datapath of Open vSwitch in the kernel (its module's `datapath.c`), with what else such a switch has on a host. A host may have a switch of
/// its own, with the same names: what is here is the network's only where its mark is ([`NetworkTraits::mark`]).
#[derive(Clone, Copy, Debug)]
pub struct Datapath {
    /// Its name, which its link has, too.
    pub name: &'static str,
    /// Links to other nodes, which are ports of it and stay without it.
    pub tunnels: &'static [&'static str],
    /// How the names of pods' links end, after hexadecimal digits and, of further interfaces, `_net1`.
    pub pods: &'static str,
    /// Names of its programs' processes.
    pub daemons: &'static [&'static str],
    /// Links of the datapaths of such a switch, whoever has it.
    pub any_links: &'static [&'static str],
    /// Folders that its pods fill.
    pub folders: &'static [&'static str],
    /// Rules without a comment that its programs put into chains of others, as `iptables-save` writes them.
    pub rules: &'static [&'static str],
}

impl NetworkTraits {
    /// Every folder that its pods fill, below /run and elsewhere.
    pub fn folders(&self) -> impl Iterator<Item = &'static str> {
        self.run.iter().chain(self.state).copied()
    }
}

/// A plugin without any traits.
pub(super) const NOTHING: NetworkTraits = NetworkTraits {
    mark: None,
    links: &[],
    pod_links: &[],
    pod_digits: None,
    link_ends: &[],
    unmanaged: &[],
    datapath: None,
    bridges: &[],
    chains: &[],
    rule_comments: &[],
    tables: &[],
    run: &[],
    state: &[],
    files: &[],
    sysctls: &[],
    mounts: &[],
    pins: &[],
    filters: &[],
    route_protocols: &[],
    pod_routes: None,
    route_tables: &[],
    marked_rules: None,
    local_rule: None,
    cni_programs: &[],
    cni_configs: &[],
    namespaces: &[],
    workloads: &[],
    modules: &[],
    udp_ports: &[],
    tcp_ports: &[],
    local_ports: &[],
    control_plane_ports: &[],
    control_plane_local_ports: &[],
    images: &[],
    chart: None,
    manifest: None,
    tool: None,
    feature_images: &[],
};
