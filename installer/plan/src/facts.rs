//! What was seen on a host before anything is planned. Facts never go into the cluster spec.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kubexm_spec::{Arch, Digest, Family};
use serde::{Deserialize, Serialize};

use crate::{ClusterId, Vouched};

/// One host as it was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Name in cluster.yaml.
    pub host: String,
    /// `hostname`.
    pub hostname: String,
    /// Addresses that the node's own name resolves to without our hosts block (from /etc/hosts only).
    pub hostname_addresses: Vec<IpAddr>,
    /// `ID` of /etc/os-release.
    pub os_id: String,
    /// `VERSION_ID` of /etc/os-release.
    pub os_version: String,
    /// `VERSION` of /etc/os-release, or what /etc/.productinfo says, where there is one: which edition or service pack it is.
    #[serde(default)]
    pub os_edition: String,
    /// Major and minor of its glibc, `2.36`; none where it has none (musl), or does not say.
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
    /// Free bytes for root, by mount point of each path we write to.
    pub disks: Vec<Disk>,
    /// 1 or 2.
    pub cgroup_version: u8,
    /// Modules that are loaded, built in or loadable, of those we need.
    pub modules: BTreeMap<String, ModuleState>,
    /// Version of the systemd that runs; none where it does not tell.
    #[serde(default)]
    pub systemd: Option<u32>,
    /// Programs that kubeadm and kubelet call: path, or none when absent.
    pub programs: BTreeMap<String, Option<String>>,
    /// What is installed; none where neither dpkg nor rpm is.
    #[serde(default)]
    pub packages: Option<InstalledPackages>,
    /// Interfaces with their addresses.
    pub interfaces: Vec<Interface>,
    /// Whether there is a default route.
    pub default_route: bool,
    /// Destination networks of routes (CIDR text), without the default route.
    pub routes: Vec<String>,
    /// Nameservers of /etc/resolv.conf; none when the file does not exist.
    pub nameservers: Option<Vec<IpAddr>>,
    /// Servers that systemd-resolved asks (/run/systemd/resolve/resolv.conf), where /etc/resolv.conf names its stub;
    /// none elsewhere.
    pub resolved_nameservers: Option<Vec<IpAddr>>,
    /// Devices of /proc/swaps.
    pub swaps: Vec<String>,
    /// Lines of /etc/fstab that bring swap back.
    pub fstab_swaps: Vec<String>,
    /// SELinux now.
    pub selinux: SelinuxState,
    /// Whether fapolicyd runs: it refuses to run programs that no package brought.
    pub fapolicyd: bool,
    /// Whether the kernel is in FIPS mode: it wants validated cryptography alone.
    pub fips: bool,
    /// Active units of firewalld, ufw, nftables.
    pub firewalls: Vec<String>,
    /// Active time services.
    pub time_services: Vec<String>,
    /// Clock minus the controller's clock in milliseconds, and the round trip it was measured with.
    pub clock_offset_ms: i64,
    /// Milliseconds of that round trip.
    pub round_trip_ms: u64,
    /// Sockets that listen.
    pub listeners: Vec<Listener>,
    /// What a Kubernetes, container runtime or etcd left or runs here.
    pub leftovers: Vec<Leftover>,
    /// What is there of keepalived and of the proxies that a load balancer can run, at most one of each program.
    #[serde(default)]
    pub balancers: Vec<Balancer>,
    /// State folders ([`crate::state_folders`]) with something in them; none are looked at on a host with our stamp.
    #[serde(default)]
    pub state_folders: Vec<StateFolder>,
    /// Mounts below state folders that are nobody's we know, or in use by a process of the host.
    #[serde(default)]
    pub foreign_mounts: Vec<ForeignMount>,
    /// Our stamp, when we have been here.
    pub stamp: Option<Stamp>,
    /// Why the stamp that is there cannot be read: nobody knows whose node this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable_stamp: Option<String>,
    /// Digest of the config that a `kubeadm init` of ours was given, once that init has ended well.
    #[serde(default)]
    pub kubeadm_config: Option<Digest>,
    /// Whether the node is in a kubexm cluster: kubelet's credentials are there, and our stamp.
    #[serde(default)]
    pub joined: bool,
    /// Digest of the cluster CA's certificate of a node that is in a cluster of ours: two clusters have different ones, also when
    /// their stamps say the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ca: Option<Digest>,
    /// `*_proxy` variables set for everyone, with the file that sets them.
    pub proxies: Vec<(String, String)>,
    /// Mount points with `noexec` among the paths we use.
    pub noexec: Vec<String>,
    /// What a boot would set, by kernel parameter (sysctl.d(5)).
    #[serde(default)]
    pub boot_sysctls: BTreeMap<String, BootSysctl>,
    /// Machine id, to find clones.
    pub machine_id: String,
    /// DMI product uuid, to find clones; empty when the machine has none.
    pub product_uuid: String,
}

/// Packages that a host has installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledPackages {
    /// Whose list it is.
    pub family: Family,
    /// Deb: dpkg's status file, without what is not installed and without fields that no solver reads. Rpm: the lines of
    /// `rpm -qa` that `kubexm_packages::rpm::installed` reads.
    pub list: String,
    /// Why the list cannot be trusted, in the words of who was asked: the database cannot be read, or nobody answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// Free space of one mount point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Mount point.
    pub mount: String,
    /// Paths of kubexm on it.
    pub paths: Vec<String>,
    /// Free bytes.
    pub free: u64,
    /// Size in bytes.
    pub size: u64,
    /// `xfs` with ftype=0 breaks overlayfs; none when unknown.
    pub filesystem: Option<String>,
    /// Whether it is mounted read-only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Inodes, where the file system has a fixed number of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inodes: Option<Inodes>,
}

/// Inodes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inodes {
    /// Unused ones.
    pub free: u64,
    /// All of them.
    pub total: u64,
}

/// Whether a kernel module is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ModuleState {
    /// In the kernel or loaded.
    Present,
    /// `modprobe --dry-run` finds it.
    Loadable,
    /// Not available.
    Missing,
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
    /// Largest packet in bytes; 0 when unknown.
    #[serde(default)]
    pub mtu: u32,
}

/// A kernel parameter as a boot would set it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootSysctl {
    /// The value of the line that wins.
    pub value: String,
    /// Where that line is, `/etc/sysctl.d/99-sysctl.conf:12`.
    pub line: String,
}

/// SELinux's mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SelinuxState {
    /// Not in the kernel, or off.
    Absent,
    /// Logs only.
    Permissive,
    /// Refuses.
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
    /// Process name, when it could be found.
    pub process: Option<String>,
    /// Process id, when it could be found.
    pub pid: Option<u32>,
    /// Whether the process belongs to something we installed (its unit or path is in the ledger).
    pub ours: bool,
}

/// Something that is already there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Leftover {
    /// What, for people: `/etc/kubernetes/admin.conf`, `docker with 3 containers`, `etcd running (pid 512)`.
    pub what: String,
    /// Whether it was made by kubexm, by the ledger.
    pub ours: bool,
}

/// keepalived, haproxy or nginx, installed or running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Balancer {
    /// `haproxy`, as its process is called.
    pub program: String,
    /// Its configuration file, when it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The first process of it that runs outside of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Whether the ledger says we made it.
    pub ours: bool,
}

/// A state folder that is not empty. Empty folders in it, empty hidden files (packages' placeholders) and a
/// file system's `lost+found` do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateFolder {
    /// Absolute.
    pub path: String,
    /// Files in it, at any depth; counted up to [`StateFolder::MOST`].
    pub files: u64,
    /// The first few of them, relative to it.
    pub first: Vec<String>,
    /// Where an earlier [`crate::op::MoveAside`] put what was in it, when that is still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<String>,
}

impl StateFolder {
    /// More files than these are not counted.
    pub const MOST: u64 = 10_000;
}

/// A mount that stops a reset, and a create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignMount {
    /// The state folder that it lies in.
    pub folder: String,
    /// Where it is mounted.
    pub point: String,
    /// `tmpfs`, `nfs4`.
    pub filesystem: String,
    /// Device or export.
    pub source: String,
    /// A process of the host that uses a mount of a pod's; none of a mount that is no pod's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<String>,
}

impl std::fmt::Display for ForeignMount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} of {})", self.point, self.filesystem, self.source)?;
        self.used_by.iter().try_for_each(|user| write!(f, ", in use by {user}"))
    }
}

/// `/var/lib/kubexm/stamp.json`: whose node this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stamp {
    /// `metadata.name`.
    pub cluster: String,
    /// Which cluster of that name; none in stamps of programs that made no ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ClusterId>,
    /// Run that wrote it.
    pub run: String,
    /// The bundle of that run; none in stamps of programs that did not write it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<Vouched>,
}
