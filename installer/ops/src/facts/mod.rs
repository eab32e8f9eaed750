//! Facts: what is observed on a machine before anything is planned. Everything is read from files below the machine's
//! root where the kernel or the distribution has such files, so that a machine rooted in a directory can provide them.

mod balancers;
mod disks;
mod dns;
mod glibc;
mod held;
pub(crate) mod interfaces;
mod leftovers;
mod listeners;
mod network;
pub(crate) mod open_folders;
mod os;
mod ours;
mod packages;
mod processes;
mod runtime_settings;
mod services;
mod state_folders;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::thread::ScopedJoinHandle;

use kubexm_plan::backup::FROM_BACKUP;
use kubexm_plan::facts::{DataFolders, DnsWildcard, ModuleState, OwnSwitch};
use kubexm_plan::{Facts, KubeadmFiles, REGISTRY_CAS, SEALED_AUTHORITIES, etcd, runtime};
use kubexm_spec::{Arch, Digest};

use crate::ops::act::{kubeadm_files, kubeadm_init, kubeadm_upgrade, mark};
use crate::ops::{kernel_module, stamp, swap_off, sysctl, timezone};
use crate::system::Program;
use crate::teardown::{datapath, foreign};
use crate::{Machine, OpError, authority, fsio, given, paths, systemd, timers};

/// Modules that kubexm needs: for the runtime, the bridge's sysctls and kube-proxy's ipvs mode. Others (vxlan,
/// nf_conntrack) cannot be distinguished from missing ones if they are built in without parameters.
const MODULES: [&str; 6] = ["br_netfilter", "overlay", "ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh"];
/// File systems of the kernel that a pod network may need.
const FILESYSTEMS: [&str; 2] = ["bpf", "cgroup2"];
/// Kernel parameters that kubexm sets on a node.
const SYSCTLS: [&str; 4] = [
    "net.ipv4.ip_forward",
    "net.ipv6.conf.all.forwarding",
    "net.bridge.bridge-nf-call-iptables",
    "net.bridge.bridge-nf-call-ip6tables",
];
/// Programs that kubeadm, kubelet, kube-proxy, the CNI plugins and kubexm call, and those in the table of root
/// packages.
const PROGRAMS: [&str; 25] = [
    "iptables",
    "nft",
    "conntrack",
    "mount",
    "umount",
    "nsenter",
    "ip",
    "ethtool",
    "tc",
    "socat",
    "ebtables",
    "ipset",
    "ipvsadm",
    "mount.nfs",
    "iscsiadm",
    "iscsid",
    "chronyd",
    "chronyc",
    "keepalived",
    "haproxy",
    "nginx",
    "modprobe",
    "systemctl",
    "systemd-run",
    "diff",
];

/// kubelet's credentials on a node that has joined a cluster.
const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";
/// The cluster CA on every node, from `kubeadm init` or `kubeadm join`.
const CLUSTER_CA: &str = "/etc/kubernetes/pki/ca.crt";

/// Gathers all facts. `host` is the name in cluster.yaml. The link sets `clock_offset_ms` and `round_trip_ms`, which a
/// machine cannot measure itself.
pub fn collect(machine: &Machine, host: &str) -> Result<Facts, OpError> {
    collect_with(machine, host, &DataFolders::default())
}

/// The same, with further folders: those that cluster.yaml names for data.
pub fn collect_with(machine: &Machine, host: &str, folders: &DataFolders) -> Result<Facts, OpError> {
    let kernel = machine.system().kernel()?;
    let hostname = machine.system().hostname()?;
    let release = os::release(machine)?;
    let (default_route, routes) = network::routes(machine)?;
    let fstab = fsio::read_text(&machine.path("/etc/fstab"))?.unwrap_or_default();
    let nameservers = network::nameservers(machine)?;
    let resolved = network::resolved_nameservers(machine, nameservers.as_deref().unwrap_or_default())?;
    // A damaged stamp or mark is a fact, not an error, so that the problems of all hosts are reported together.
    let (stamp, unreadable_stamp) = match stamp::read(machine) {
        Ok(stamp) => (stamp, None),
        Err(error) => (None, Some(error.full())),
    };
    let ours = ours::Ours::read(machine, stamp.is_some())?;
    let unreadable_mark = mark::unreadable(machine);
    let marks_are_readable = unreadable_mark.is_none();
    let unreadable_mark = unreadable_mark.or_else(|| kubeadm_upgrade::unreadable(machine)).map(|error| error.full());
    let kubeadm_config = if marks_are_readable { kubeadm_init::config_of_the_cluster(machine)? } else { None };
    let stamped = stamp.is_some();
    // What a site's CA has signed is given before the join: that is none before it has ended well.
    let has_conf = stamped && machine.path(KUBELET_CONF).is_file();
    let joined = has_conf
        && (marks_are_readable && mark::any_ended_well(machine)? || !given::paths(machine)?.contains(KUBELET_CONF));
    let cluster_ca = if joined { fsio::read(&machine.path(CLUSTER_CA))? } else { None };
    let processes = processes::all(machine);
    let servers = resolved.as_deref().or(nameservers.as_deref()).unwrap_or_default();
    let slow = Slow::look(machine, servers, resolved.is_some(), joined)?;
    Ok(Facts {
        host: host.to_owned(),
        hostname_addresses: network::addresses_in_hosts(machine, &hostname)?,
        hostname,
        os_id: release.get("ID").cloned().unwrap_or_default(),
        os_version: release.get("VERSION_ID").cloned().unwrap_or_default(),
        os_edition: os::edition(machine, &release)?,
        glibc: glibc::version(machine),
        arch: Arch::from_any(&kernel.machine),
        kernel: kernel.release,
        page_size: kernel.page_size,
        cpus: kernel.cpus,
        memory: os::memory(machine)?,
        disks: disks::look(machine)?,
        cgroup_version: if machine.path("/sys/fs/cgroup/cgroup.controllers").exists() { 2 } else { 1 },
        filesystems: filesystems(machine)?,
        modules: slow.modules,
        boot_modules: kernel_module::at_boot(machine, &module_names())?,
        systemd: slow.systemd,
        programs: programs(machine),
        packages: packages::look(machine, &release),
        interfaces: machine.system().interfaces()?,
        default_route,
        default_link: network::default_link(machine)?,
        routers_asked_on: network::routers_asked_on(machine)?,
        routes,
        dns_wildcards: slow.dns_wildcards,
        resolved_nameservers: resolved,
        nameservers,
        swaps: swap_off::devices(machine)?,
        fstab_swaps: swap_off::fstab_lines(&fstab),
        selinux: os::selinux(machine)?,
        fapolicyd: slow.services.fapolicyd,
        fips: os::line(machine, "/proc/sys/crypto/fips_enabled")? == "1",
        firewalls: slow.services.firewalls,
        time_services: slow.services.time,
        timezones: timezone::zones(machine),
        clock_offset_ms: 0,
        round_trip_ms: 0,
        listeners: listeners::look(machine, &processes, &ours)?,
        leftovers: leftovers::look(machine, &processes, &ours)?,
        runtime_settings: runtime_settings::look(machine)?,
        docker: leftovers::of_docker(machine, &processes, &ours),
        balancers: balancers::look(machine, &processes, &ours),
        state_folders: if ours.stamped() { Vec::new() } else { state_folders::look(machine, &folders.filled)? },
        etcd_write_us: etcd_write(machine, folders.etcd.as_deref().filter(|_| !ours.stamped()))?,
        open_folders: open_folders::look(machine, folders.filled.iter().chain(&folders.kept), ours.stamped())?,
        foreign_mounts: foreign::look(machine, &folders.filled)?,
        own_switch: own_switch(machine, &processes)?,
        stamp,
        unreadable_stamp,
        unreadable_mark,
        kubeadm_config_text: kubeadm_init::text_of(kubeadm_config.as_ref(), machine)?,
        kubeadm_config,
        kubeadm_files: kubeadm_files(machine, marks_are_readable)?,
        etcd_formed: own(machine, stamped, etcd::FORMED)?,
        etcd_keyspace: own(machine, stamped, etcd::KEYSPACE)?,
        from_backup: own(machine, stamped, FROM_BACKUP)?,
        timers: timers::present(machine),
        runtime_root: if stamped { runtime_root(machine)? } else { None },
        joined,
        sealed_authorities: sealed_authorities(machine)?,
        registry_ca: registry_ca(machine)?,
        cluster_ca: cluster_ca.as_deref().map(Digest::of),
        cluster_ca_key: cluster_ca.as_deref().map(|pem| authority::public_key(pem).unwrap_or_else(|| Digest::of(pem))),
        proxies: os::proxies(machine)?,
        noexec: disks::noexec(machine)?,
        sysctls: sysctl::now(machine, &SYSCTLS)?,
        boot_sysctls: sysctl::at_boot(machine)?,
        machine_id: os::line(machine, "/etc/machine-id")?,
        product_uuid: os::line(machine, "/sys/class/dmi/id/product_uuid")?.to_ascii_lowercase(),
    })
}

/// What waits for other programs, and for answers of name servers that an air gap may not have.
struct Slow {
    modules: BTreeMap<String, ModuleState>,
    services: services::Services,
    systemd: Option<u32>,
    dns_wildcards: Vec<DnsWildcard>,
}

impl Slow {
    /// Each beside the others. `joined`: the host is a node already.
    fn look(machine: &Machine, servers: &[IpAddr], behind_stub: bool, joined: bool) -> Result<Self, OpError> {
        std::thread::scope(|scope| {
            let modules = scope.spawn(|| modules(machine));
            let services = scope.spawn(|| services::look(machine));
            let systemd = scope.spawn(|| systemd::version(machine));
            let dns_wildcards = dns::wildcards(machine, servers, behind_stub, joined)?;
            Ok(Self { modules: ended(modules)?, services: ended(services)?, systemd: ended(systemd)?, dns_wildcards })
        })
    }
}

fn ended<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn own_switch(machine: &Machine, processes: &[processes::Process]) -> Result<OwnSwitch, OpError> {
    let is_daemon = |name: &str| datapath::daemons().any(|daemon| daemon == name);
    let own = processes.iter().filter(|process| !process.in_pod && !process.in_container && is_daemon(&process.name));
    let mut names: Vec<String> = own.map(|process| process.name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    Ok(OwnSwitch { processes: names, links: datapath::of_the_host(machine)? })
}

/// Where a member runs, its own metrics tell; that of another cluster, too, is not disturbed.
fn etcd_write(machine: &Machine, folder: Option<&str>) -> Result<Option<u64>, OpError> {
    let has_member = |folder: &&str| machine.path(format!("{folder}/member")).exists();
    folder.filter(|folder| !has_member(folder)).map_or(Ok(None), |folder| machine.system().write_us(folder))
}

/// A text of kubexm's own, on a host that belongs to a cluster.
fn own(machine: &Machine, stamped: bool, path: &str) -> Result<Option<String>, OpError> {
    if stamped { fsio::read_text(&machine.path(path)) } else { Ok(None) }
}

fn kubeadm_files(machine: &Machine, marks_are_readable: bool) -> Result<Option<KubeadmFiles>, OpError> {
    let written = marks_are_readable && mark::any_ended_well(machine)?;
    written.then(|| kubeadm_files::compared(machine)).transpose()
}

/// `root` of the runtime's configuration; one that cannot be read has none.
fn runtime_root(machine: &Machine) -> Result<Option<String>, OpError> {
    for runtime in runtime::INSTALLED {
        let text = fsio::read_text(&machine.path(runtime.config))?.unwrap_or_default();
        let root = toml::from_str::<toml::Table>(&text)
            .ok()
            .and_then(|config| config.get("root")?.as_str().map(str::to_owned));
        if root.is_some() {
            return Ok(root);
        }
    }
    Ok(None)
}

/// Whether it can be used is decided by the controller.
fn sealed_authorities(machine: &Machine) -> Result<Option<String>, OpError> {
    let bytes = fsio::read(&machine.path(SEALED_AUTHORITIES))?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes[..bytes.len().min(Facts::SEALED_MOST)]).into_owned()))
}

fn registry_ca(machine: &Machine) -> Result<Option<Digest>, OpError> {
    for path in REGISTRY_CAS {
        if let Some(bytes) = fsio::read(&machine.path(path))? {
            return Ok(Some(Digest::of(bytes)));
        }
    }
    Ok(None)
}

/// Of `/proc/filesystems`: each line ends with a name.
fn filesystems(machine: &Machine) -> Result<BTreeSet<String>, OpError> {
    let text = fsio::read_text(&machine.path("/proc/filesystems"))?.unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split_whitespace().last());
    Ok(names.filter(|name| FILESYSTEMS.contains(name)).map(str::to_owned).collect())
}

/// Those that any cluster may need.
fn module_names() -> Vec<&'static str> {
    MODULES.into_iter().chain(kubexm_plan::network::MODULES).chain(kubexm_plan::runtime::MODULES).collect()
}

fn modules(machine: &Machine) -> Result<BTreeMap<String, ModuleState>, OpError> {
    let names = module_names();
    let mut found = BTreeMap::new();
    for name in &names {
        let name = *name;
        let present = kernel_module::present(machine, name)?;
        found.insert(name.to_owned(), if present { ModuleState::Present } else { ModuleState::Missing });
    }
    let absent = || names.iter().copied().filter(|name| found[*name] == ModuleState::Missing);
    // Without modprobe nothing can be loaded.
    let loadable = |names: &[&str]| {
        let dry =
            Program::new("modprobe").args(["--dry-run", "--quiet", "--all"]).args(names.iter().copied()).within(20);
        machine.try_run(&dry).is_ok_and(|output| output.code == 0)
    };
    let absent: Vec<&str> = absent().collect();
    let all = !absent.is_empty() && loadable(&absent);
    for name in absent {
        if all || loadable(&[name]) {
            found.insert(name.to_owned(), ModuleState::Loadable);
        }
    }
    Ok(found)
}

fn programs(machine: &Machine) -> BTreeMap<String, Option<String>> {
    let find = |name: &str| {
        paths::PATH.split(':').map(|folder| format!("{folder}/{name}")).find(|path| machine.path(path).exists())
    };
    let packaged = runtime::ALL.iter().flat_map(|runtime| runtime.packaged);
    PROGRAMS.iter().chain(packaged).map(|name| ((*name).to_owned(), find(name))).collect()
}
