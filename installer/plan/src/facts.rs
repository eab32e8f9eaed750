//! What is observed on a host before anything is planned. Facts never go into the cluster spec.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use kubexm_spec::cluster::Roles;
use kubexm_spec::{Arch, Cluster, Digest, Family};
use serde::{Deserialize, Serialize};

use crate::{BundleRecord, ClusterId, KubeadmFiles};

/// The facts about one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Name in cluster.yaml.
    pub host: String,
    /// `hostname`.
    pub hostname: String,
    /// Addresses that /etc/hosts, without kubexm's block, gives to the node's own name.
    pub hostname_addresses: Vec<IpAddr>,
    /// `ID` of /etc/os-release.
    pub os_id: String,
    /// `VERSION_ID` of /etc/os-release.
    pub os_version: String,
    /// `VERSION` of /etc/os-release, or the content of /etc/.productinfo if that exists: the edition or service pack.
    #[serde(default)]
    pub os_edition: String,
    /// Major and minor version of glibc, `2.36`; none if there is no glibc (musl) or its version is unknown.
    #[serde(default)]
    pub glibc: Option<String>,
    /// Architecture of the kernel.
    pub arch: Option<Arch>,
    /// `uname -r`.
    pub kernel: String,
    /// Bytes; 64K-page arm64 kernels break some images.
    pub page_size: u64,
    /// Online CPUs.
    pub cpus: u32,
    /// MemTotal in bytes.
    pub memory: u64,
    /// Free bytes for root, by mount point of each path that kubexm writes to.
    pub disks: Vec<Disk>,
    /// 1 or 2.
    pub cgroup_version: u8,
    /// Of the kernel's file systems those that a pod network may need: `bpf`, `cgroup2`.
    #[serde(default)]
    pub filesystems: BTreeSet<String>,
    /// State of each kernel module that kubexm needs.
    pub modules: BTreeMap<String, ModuleState>,
    /// Those that the next boot has: built in, or named in a folder modules-load.d.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub boot_modules: BTreeSet<String>,
    /// Version of the running systemd; none if unknown.
    #[serde(default)]
    pub systemd: Option<u32>,
    /// Programs that kubeadm and kubelet call, with their path; none if absent.
    pub programs: BTreeMap<String, Option<String>>,
    /// Installed packages; none if there is neither dpkg nor rpm.
    #[serde(default)]
    pub packages: Option<InstalledPackages>,
    /// Interfaces with their addresses.
    pub interfaces: Vec<Interface>,
    /// Whether there is a default route of IPv4.
    pub default_route: bool,
    /// The link that it leads to; of several the one with the lowest metric.
    #[serde(default)]
    pub default_link: Option<String>,
    /// Interfaces on which the kernel has routes or addresses of IPv6 from a router, and takes none any more once it forwards
    /// packets (`accept_ra` is 1).
    #[serde(default)]
    pub routers_asked_on: Vec<String>,
    /// Destination networks of routes (CIDR text), without the default route.
    pub routes: Vec<String>,
    /// Nameservers of /etc/resolv.conf; none if the file does not exist.
    pub nameservers: Option<Vec<IpAddr>>,
    /// Upstream servers of systemd-resolved (/run/systemd/resolve/resolv.conf) if /etc/resolv.conf names its stub, else
    /// none.
    pub resolved_nameservers: Option<Vec<IpAddr>>,
    /// Name servers of the host that give an address to names that nobody has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_wildcards: Vec<DnsWildcard>,
    /// Devices of /proc/swaps.
    pub swaps: Vec<String>,
    /// Lines of /etc/fstab that enable swap at boot.
    pub fstab_swaps: Vec<String>,
    /// Current mode of SELinux.
    pub selinux: SelinuxState,
    /// Whether fapolicyd is active: it blocks programs that no package installed.
    pub fapolicyd: bool,
    /// Whether the kernel is in FIPS mode, which allows only validated cryptography.
    pub fips: bool,
    /// Active units of firewalld, ufw, nftables.
    pub firewalls: Vec<String>,
    /// Active time services.
    pub time_services: Vec<String>,
    /// The time zones that the host has a file for, `Asia/Shanghai`, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timezones: Vec<String>,
    /// Clock minus the controller's clock in milliseconds, and the round trip it was measured with.
    pub clock_offset_ms: i64,
    /// Milliseconds of that round trip.
    pub round_trip_ms: u64,
    /// Listening sockets.
    pub listeners: Vec<Listener>,
    /// Files and processes of another Kubernetes, container runtime or etcd.
    pub leftovers: Vec<Leftover>,
    /// What files of others set in the configuration of a runtime, and are read after kubexm's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtime_settings: Vec<RuntimeSetting>,
    /// What of a docker engine is on the host: a dockerd that runs, its configuration, its data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub docker: Vec<Leftover>,
    /// keepalived and the proxies that a load balancer can run, at most one entry for each program.
    #[serde(default)]
    pub balancers: Vec<Balancer>,
    /// State folders ([`crate::state_folders`]) that are not empty; not examined on a host with kubexm's stamp.
    #[serde(default)]
    pub state_folders: Vec<StateFolder>,
    /// Microseconds in which 99 of 100 small writes to the folder of etcd are on the disk; not measured on a host with kubexm's stamp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_write_us: Option<u64>,
    /// Folders of [`DataFolders`] that are not root's alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_folders: Vec<OpenFolder>,
    /// Mounts below state folders that are not a pod's, or are in use by a process of the host.
    #[serde(default)]
    pub foreign_mounts: Vec<ForeignMount>,
    /// What of Open vSwitch is the host's own.
    #[serde(default, skip_serializing_if = "OwnSwitch::is_empty")]
    pub own_switch: OwnSwitch,
    /// The stamp, if the host belongs to a cluster of kubexm.
    pub stamp: Option<Stamp>,
    /// Why the stamp cannot be read, so that it is unknown which cluster the node belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable_stamp: Option<String>,
    /// Why kubexm's record of its `kubeadm init`, `join` or `upgrade` cannot be read, so that it is unknown whose Kubernetes the node has, or
    /// what an upgrade has replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable_mark: Option<String>,
    /// Digest of the config of the last `kubeadm init` by kubexm that succeeded.
    #[serde(default)]
    pub kubeadm_config: Option<Digest>,
    /// The text of that config, when the file on the host is still that one; never more than [`Facts::KUBEADM_CONFIG_MOST`] bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeadm_config_text: Option<String>,
    /// The files that kubeadm wrote, if an init or join by kubexm has succeeded here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeadm_files: Option<KubeadmFiles>,
    /// [`crate::etcd::FORMED`], if the host has a member of an etcd of kubexm's that was healthy once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_formed: Option<String>,
    /// [`crate::etcd::KEYSPACE`], on a control plane with an etcd of the user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_keyspace: Option<String>,
    /// [`crate::backup::FROM_BACKUP`], on a host whose cluster is made from a backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_backup: Option<String>,
    /// The timers of kubexm's ([`crate::timers`]) that the host has, by the names of their units without an end.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub timers: BTreeSet<String>,
    /// The folder of images and containers in the configuration of the runtime that kubexm has installed, where that names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_root: Option<String>,
    /// Whether the node has joined a cluster of kubexm: it has kubelet's credentials and a stamp.
    #[serde(default)]
    pub joined: bool,
    /// Digest of the cluster CA's certificate on a node of a kubexm cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ca: Option<Digest>,
    /// Digest of that CA's public key (SubjectPublicKeyInfo in DER): it differs between clusters even if their stamps are equal, and stays
    /// when the certificate is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ca_key: Option<Digest>,
    /// The content of [`crate::SEALED_AUTHORITIES`], if the file exists; never more than [`Facts::SEALED_MOST`] bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_authorities: Option<String>,
    /// Digest of the certificate of the registry's CA ([`crate::REGISTRY_CAS`]), if the host has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_ca: Option<Digest>,
    /// `*_proxy` variables that are set for all users, with the file that sets them.
    pub proxies: Vec<(String, String)>,
    /// Mount points with `noexec` among the paths that kubexm uses.
    pub noexec: Vec<String>,
    /// Current values of the kernel parameters that kubexm sets; those that the kernel does not have are not in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// Values that the next boot would set, by kernel parameter (sysctl.d(5)).
    #[serde(default)]
    pub boot_sysctls: BTreeMap<String, BootSysctl>,
    /// Machine id, to detect clones.
    pub machine_id: String,
    /// DMI product uuid, to detect clones; empty if the machine has none.
    pub product_uuid: String,
}

impl Facts {
    /// Bytes of sealed authorities that are read; a real file has a few thousand.
    pub const SEALED_MOST: usize = 256 << 10;
    /// Bytes of a config of kubeadm that are read; kubexm writes a few thousand.
    pub const KUBEADM_CONFIG_MOST: usize = 256 << 10;
}

/// A name server that gives an address to random names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsWildcard {
    /// To names below this search domain of the host; none: to any name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The name server.
    pub server: IpAddr,
    /// The address that it gave.
    pub address: IpAddr,
}

/// Packages that a host has installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledPackages {
    /// The package manager that the list is from.
    pub family: Family,
    /// Deb: dpkg's status file, without packages that are not installed and fields that the solver does not read. Rpm:
    /// lines of `rpm -qa`, as `kubexm_packages::rpm::installed` reads them.
    pub list: String,
    /// Why the list cannot be trusted (the database cannot be read, or the package manager did not answer), in the
    /// package manager's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// Free space of one mount point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Mount point.
    pub mount: String,
    /// Paths that kubexm uses on it.
    pub paths: Vec<String>,
    /// Free bytes.
    pub free: u64,
    /// Size in bytes.
    pub size: u64,
    /// `xfs` with ftype=0 breaks overlayfs; none if unknown.
    pub filesystem: Option<String>,
    /// Whether it is mounted read-only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Whether no program can be run from it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub noexec: bool,
    /// Inodes, if the file system has a fixed number of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inodes: Option<Inodes>,
}

/// Inodes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inodes {
    /// Free inodes.
    pub free: u64,
    /// All inodes.
    pub total: u64,
}

/// Whether a kernel module is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ModuleState {
    /// Built in or loaded.
    Present,
    /// `modprobe --dry-run` succeeds.
    Loadable,
    /// Not available.
    Missing,
}

/// What of a switch (Open vSwitch) is a host's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnSwitch {
    /// Names of its programs that run outside of pods.
    pub processes: Vec<String>,
    /// Links of the host that are ports of the pod network's switch.
    pub links: Vec<String>,
}

impl OwnSwitch {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.links.is_empty()
    }
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// `eth0`.
    pub name: String,
    /// Addresses with prefix length, `10.0.0.5/24`.
    pub addresses: Vec<String>,
    /// Hardware address.
    pub mac: String,
    /// MTU in bytes; 0 if unknown.
    #[serde(default)]
    pub mtu: u32,
}

/// The value that the next boot would set for a kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootSysctl {
    /// The value of the line that takes precedence.
    pub value: String,
    /// File and line number, `/etc/sysctl.d/99-sysctl.conf:12`.
    pub line: String,
}

/// Mode of SELinux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SelinuxState {
    /// Not in the kernel, or disabled.
    Absent,
    /// Denials are only logged.
    Permissive,
    /// Denials are enforced.
    Enforcing,
}

/// A listening socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Port.
    pub port: u16,
    /// Process name, if known.
    pub process: Option<String>,
    /// Process id, if known.
    pub pid: Option<u32>,
    /// Whether the process belongs to kubexm (its unit or path is in the ledger).
    pub ours: bool,
}

/// Something that another cluster, container runtime or etcd has left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Leftover {
    /// Description for people: `/etc/kubernetes/admin.conf`, `docker with 3 containers`, `etcd running (pid 512)`.
    pub what: String,
    /// Whether kubexm made it, according to the ledger.
    pub ours: bool,
}

/// A setting of a runtime in a file of somebody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeSetting {
    /// Its path, `…/99-site.conf`.
    pub file: String,
    /// Its sections and its name, with dots between them; `registry docker.io` in a file of registries; empty if the file cannot be read as TOML.
    pub key: String,
    /// The value as TOML writes it.
    pub value: String,
}

/// keepalived, haproxy or nginx, installed or running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Balancer {
    /// Process name, `haproxy`.
    pub program: String,
    /// Its configuration file, if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Its first process outside of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Whether kubexm installed it, according to the ledger.
    pub ours: bool,
}

/// A state folder that is not empty. Empty folders in it, empty hidden files (packages' placeholders) and a
/// file system's `lost+found` do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateFolder {
    /// Absolute.
    pub path: String,
    /// Number of files in it, at any depth, counted up to [`StateFolder::MOST`].
    pub files: u64,
    /// The first few of them, relative to it.
    pub first: Vec<String>,
    /// The folder to which an earlier [`crate::op::MoveAside`] moved its content, if that still exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<String>,
}

/// Where kubexm's programs are.
pub const PROGRAMS: &str = "/usr/local/bin";

/// Folders that cluster.yaml names for data, which facts look at beside the usual ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataFolders {
    /// Those that must be empty before services fill them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filled: Vec<String>,
    /// Those that may have data already: a registry's, that of etcd's backups, that of volumes, and [`PROGRAMS`] on a host whose keepalived runs a check from there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Where a member of etcd will write; none if the host has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<String>,
}

impl DataFolders {
    /// Those of a host with these roles.
    pub fn of(cluster: &Cluster, roles: Roles) -> Self {
        let owned = |folders: Vec<&str>| folders.into_iter().map(str::to_owned).collect();
        // keepalived runs no check of a folder that others may write to, and says so in its log alone.
        let checked = roles.load_balancer && cluster.load_balancer.mode.proxy().is_some();
        let backups = cluster.etcd.backup.as_ref().filter(|_| cluster.etcd_folder(roles).is_some());
        let kept = cluster.registry_folder(roles).into_iter().chain(backups.map(|backup| backup.dir.as_str()));
        let kept = kept.chain(checked.then_some(PROGRAMS)).chain(cluster.volumes_folder(roles));
        Self {
            filled: owned(cluster.data_folders(roles)),
            kept: owned(kept.collect()),
            etcd: cluster.etcd_folder(roles).map(str::to_owned),
        }
    }
}

/// A folder for data in whose place somebody who is not root could put another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenFolder {
    /// As cluster.yaml names it.
    pub folder: String,
    /// It, or a folder on its way.
    pub at: String,
    /// Uid of its owner, if that is not root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// Its mode.
    pub mode: u32,
}

impl StateFolder {
    /// The count stops at this number of files.
    pub const MOST: u64 = 10_000;
}

/// A mount that blocks a reset or a create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignMount {
    /// The state folder that contains it.
    pub folder: String,
    /// Its mount point.
    pub point: String,
    /// `tmpfs`, `nfs4`.
    pub filesystem: String,
    /// Device or export.
    pub source: String,
    /// For a mount of a pod, a process of the host that uses it; none for a mount that is not a pod's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<String>,
}

impl std::fmt::Display for ForeignMount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} of {})", self.point, self.filesystem, self.source)?;
        self.used_by.iter().try_for_each(|user| write!(f, ", in use by {user}"))
    }
}

/// `/var/lib/kubexm/stamp.json`: the cluster that the node belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stamp {
    /// `metadata.name`.
    pub cluster: String,
    /// The cluster's id; none in stamps of versions without ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ClusterId>,
    /// Run that wrote it.
    pub run: String,
    /// The bundle of that run; none in stamps of versions that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleRecord>,
    /// Whether the cluster was there before kubexm-install, which has adopted it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
}
