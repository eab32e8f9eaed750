//! Node preparation: the cluster's stamp, hostname, /etc/hosts, time zone, resolver, SELinux, firewall, swap, kernel modules,
//! sysctls.

use std::collections::BTreeMap;

use kubexm_plan::backup::FROM_BACKUP;
use kubexm_plan::network::CLUSTER;
use kubexm_plan::op::{
    Dir, Hostname, HostsBlock, KernelModule, MoveAside, Resolver, SelinuxMode, Stamp, SwapOff, Sysctl, Timezone, Unit,
    UnmanagedLinks,
};
use kubexm_plan::{Step, Undo, runtime, state_folders};
use kubexm_spec::cluster::{Firewall, ProxyMode, Roles, Selinux};
use kubexm_spec::{Cluster, names};

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::{endpoint, scripts};
use crate::runtime::virtual_machines;
use crate::{backup_source, network, paths, registries};

/// Kernel modules that the runtime and the CNI bridge plugin need, on every host.
const MODULES: [&str; 2] = ["overlay", "br_netfilter"];

/// Those of kube-proxy's mode ipvs, with the schedulers that upstream asks for (pkg/proxy/ipvs/README.md).
const IPVS_MODULES: [&str; 4] = ["ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh"];

/// What kube-proxy sets in its mode ipvs (proxier.go of ipvs); they are there once the module is.
const IPVS_REMEMBERED: [&str; 4] = [
    "net.ipv4.vs.conntrack",
    "net.ipv4.vs.conn_reuse_mode",
    "net.ipv4.vs.expire_nodest_conn",
    "net.ipv4.vs.expire_quiescent_template",
];

/// Whether kube-proxy runs, in its mode ipvs.
pub fn uses_ipvs(cluster: &Cluster) -> bool {
    let wanted = cluster.kubernetes.as_ref().is_some_and(|kubernetes| kubernetes.proxy_mode == ProxyMode::Ipvs);
    wanted && !network::replaces_kube_proxy(cluster)
}

/// Kernel modules that a node needs.
pub fn kernel_modules(cluster: &Cluster) -> Vec<&'static str> {
    let ipvs = IPVS_MODULES.into_iter().filter(|_| uses_ipvs(cluster));
    let of_network = network::of(cluster).modules;
    let of_machines = runtime::MODULES.into_iter().filter(|_| virtual_machines::are_added(cluster));
    MODULES.into_iter().chain(ipvs).chain(of_network.iter().copied()).chain(of_machines).collect()
}

/// Kernel parameters that are set to 1 on every host.
pub fn sysctls_of(cluster: &Cluster) -> impl Iterator<Item = &'static str> {
    let v6 = cluster.network.has_two_stacks().then_some("net.ipv6.conf.all.forwarding");
    ["net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"]
        .into_iter()
        .chain(v6)
}

/// Kernel parameters that the cluster's own services set, and that a rollback therefore restores: kubelet
/// (cm/container_manager_linux.go) the first six, kube-proxy (server_linux.go; proxier.go of iptables and of ipvs) the
/// others. What the pods of a network set is among its traits.
const REMEMBERED: [&str; 15] = [
    "vm.overcommit_memory",
    "vm.panic_on_oom",
    "kernel.panic",
    "kernel.panic_on_oops",
    "kernel.keys.root_maxkeys",
    "kernel.keys.root_maxbytes",
    "net.ipv4.conf.all.route_localnet",
    "net.ipv4.conf.all.arp_ignore",
    "net.ipv4.conf.all.arp_announce",
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_tcp_be_liberal",
    "net.netfilter.nf_conntrack_tcp_timeout_close_wait",
    "net.netfilter.nf_conntrack_tcp_timeout_established",
    "net.netfilter.nf_conntrack_udp_timeout",
    "net.netfilter.nf_conntrack_udp_timeout_stream",
];

/// Firewalls that `system.firewall: off` stops; nftables.service only loads rules and is left alone.
pub const FIREWALLS: [&str; 2] = ["firewalld", "ufw"];

/// All settings of the operating system.
pub fn steps(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Vec<Step>, RecipeError> {
    let cx = draft.cx;
    let mut steps = vec![stamp(draft, node)?];
    steps.extend(scripts::before(draft, node)?);
    steps.extend(set_aside(cx, node));
    // What preflight demands of hosts that somebody else configures.
    let configures = !cx.cluster.system.skip_configure_os;
    if configures {
        steps.push(hostname(node));
    }
    steps.push(draft.depends_on_all(hosts(cx, node)?));
    steps.extend(timezone(cx, node));
    steps.extend(resolver(cx, node));
    steps.extend(selinux(cx, node));
    steps.extend(firewall(cx, node));
    // A host that only serves the registry runs no pods.
    if node.in_cluster() && configures {
        steps.extend([swap(node), modules(cx, node), sysctls(cx, node)?, links(cx, node)?]);
    }
    Ok(steps)
}

/// The first step, so that everything that an interrupted run leaves on the host has an owner. It also makes the folder
/// that many steps write into: these are rolled back in parallel, and the folder must be removed last.
fn stamp(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    // Before the stamp, which has the id of the cluster in the backup.
    let mark = draft.cx.from_backup.map(backup_source::mark_of).transpose()?;
    let mark = mark.map(|text| draft.file(FROM_BACKUP, 0o600, text));
    Ok(Step::on(node.name(), "os.stamp", "Record on the node which cluster it belongs to")
        .ensure_all(mark)
        .ensure(stamp_of(draft.cx))
        .ensure(Dir { path: paths::CONFIG_DIR.to_owned(), mode: 0o755 })
        .undo(Undo::RestoreBefore)
        .build())
}

/// What a node records of its cluster and of the bundle.
pub fn stamp_of(cx: &PlanContext<'_>) -> Stamp {
    Stamp { cluster: cx.cluster.name.clone(), id: cx.cluster_id, bundle: cx.bundle_record.cloned(), adopted: false }
}

/// Runs before anything is written into these folders. A host with empty folders has no such step.
fn set_aside(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Option<Step> {
    // A member of etcd alone needs only its data folder.
    let needed = |path: &String| path != paths::STATE && is_filled(cx.cluster, node.roles, path);
    let paths: Vec<String> = node.facts.state_folders.iter().map(|folder| folder.path.clone()).filter(needed).collect();
    if !cx.set_aside || !(node.in_cluster() || node.roles.etcd) || paths.is_empty() {
        return None;
    }
    let title = format!("Move aside what is in {}", paths.join(", "));
    let step = Step::on(node.name(), "os.set-aside", &title).ensure(MoveAside { paths });
    Some(step.undo(Undo::RestoreBefore).build())
}

/// Whether a service of a host with these roles fills a state folder: nodes need all of the usual ones, members of etcd their data
/// folder, and hosts that only serve others none.
pub fn is_filled(cluster: &Cluster, roles: Roles, path: &str) -> bool {
    // Another runtime's may be somebody else's: podman's are those of CRI-O.
    let of_another = runtime::INSTALLED.iter().filter(|runtime| runtime.kind != cluster.runtime.kind);
    let of_another = of_another.flat_map(|runtime| runtime.state).any(|folder| *folder == path);
    let usual = state_folders::all().contains(&path) && !of_another;
    let member = roles.etcd && path == cluster.etcd.data_dir;
    member || (roles.in_cluster() && usual) || cluster.data_folders(roles).contains(&path)
}

fn hostname(node: &PlannedHost<'_>) -> Step {
    Step::on(node.name(), "os.hostname", "Set the host's name")
        .ensure(Hostname { name: node.name().to_owned() })
        .undo(Undo::RestoreBefore)
        .build()
}

fn hosts(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let nodes = cx.nodes()?;
    let mut lines: Vec<String> = nodes.iter().map(|n| format!("{} {}", n.ip, n.name())).collect();
    let registry = names::registry_name(&cx.cluster.name);
    lines.extend(registries::for_host(cx, node)?.iter().map(|host| format!("{} {registry}", host.ip)));
    lines.extend(endpoint::lines(cx, node, &nodes)?);
    lines.extend(cx.cluster.extra.hosts.iter().map(|e| format!("{} {}", e.address, e.domain)));
    Ok(Step::on(node.name(), "os.hosts", "Add the cluster's hosts to /etc/hosts")
        .ensure(HostsBlock { lines, own_name: node.name().to_owned() })
        .undo(Undo::RestoreBefore)
        .build())
}

fn timezone(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Option<Step> {
    let zone = cx.cluster.system.timezone.clone()?;
    Some(
        Step::on(node.name(), "os.timezone", "Set the host's time zone")
            .ensure(Timezone { zone })
            .undo(Undo::RestoreBefore)
            .build(),
    )
}

fn resolver(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Option<Step> {
    let nameservers: Vec<String> = cx.cluster.extra.resolves.iter().map(ToString::to_string).collect();
    (!nameservers.is_empty()).then(|| {
        Step::on(node.name(), "os.resolver", "Put the cluster's DNS servers before the node's own")
            .ensure(Resolver { nameservers })
            .undo(Undo::RestoreBefore)
            .build()
    })
}

fn selinux(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Option<Step> {
    (cx.cluster.system.selinux == Selinux::Permissive).then(|| {
        Step::on(node.name(), "os.selinux", "Make SELinux permissive")
            .ensure(SelinuxMode {})
            .undo(Undo::RestoreBefore)
            .build()
    })
}

/// Only units that exist: an op on a missing unit would have nothing to restore.
fn firewall(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Option<Step> {
    let is_active =
        |name: &&&str| node.facts.firewalls.iter().any(|unit| unit.strip_suffix(".service").unwrap_or(unit) == **name);
    let units: Vec<&&str> = FIREWALLS.iter().filter(is_active).collect();
    if cx.cluster.system.firewall == Firewall::Keep || units.is_empty() {
        return None;
    }
    let mut step = Step::on(node.name(), "os.firewall", "Stop the host's firewall");
    for name in units {
        step = step.ensure(Unit {
            name: format!("{name}.service"),
            enabled: false,
            running: Some(false),
            loaded: Vec::new(),
            reloaded: Vec::new(),
        });
    }
    Some(step.undo(Undo::RestoreBefore).build())
}

fn swap(node: &PlannedHost<'_>) -> Step {
    Step::on(node.name(), "os.swap", "Turn swap off, now and at boot")
        .ensure(SwapOff {})
        .undo(Undo::RestoreBefore)
        .build()
}

fn modules(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Step {
    Step::on(node.name(), "os.modules", "Load kernel modules, now and at boot")
        .ensure(KernelModule {
            path: paths::MODULES.to_owned(),
            modules: kernel_modules(cx.cluster).into_iter().map(str::to_owned).collect(),
        })
        .undo(Undo::RestoreBefore)
        .build()
}

/// NetworkManager would take links of pods for its own. systemd-networkd, when it starts again, removes routes and rules that it has not made.
fn links(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let all = std::iter::once(&CLUSTER).chain(network::all_of(cx.cluster));
    let mut links: Vec<String> = Vec::new();
    for link in all.flat_map(|network| network.unmanaged) {
        if !links.iter().any(|known| known == link) {
            links.push((*link).to_owned());
        }
    }
    Ok(Step::on(node.name(), "os.links", "Have the host's network managers leave the cluster's links alone")
        .ensure(UnmanagedLinks { links })
        .undo(Undo::RestoreBefore)
        .build())
}

/// After the modules: net.bridge.* does not exist before br_netfilter is loaded. Bridged pod traffic must pass
/// iptables for services to work, and pods are routed. (kubelet sets its vm.* and kernel.* values itself.)
fn sysctls(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let of_network = network::of(cx.cluster).sysctls;
    let of_ipvs = IPVS_REMEMBERED.iter().filter(|_| uses_ipvs(cx.cluster));
    let remembered = REMEMBERED.iter().chain(of_ipvs).chain(of_network).map(|name| (*name).to_owned()).collect();
    let values: BTreeMap<String, String> = sysctls_of(cx.cluster).map(|n| (n.to_owned(), "1".to_owned())).collect();
    Ok(Step::on(node.name(), "os.sysctl", "Set kernel parameters, now and at boot")
        .ensure(Sysctl { path: paths::SYSCTL.to_owned(), values, remembered })
        .undo(Undo::RestoreBefore)
        .build())
}
