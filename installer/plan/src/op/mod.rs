//! The op kinds: each is one thing that must hold on a host. There is no generic "run this command".

mod act;
mod blobs;
mod kubernetes;
mod packages;
mod probe;

use std::collections::{BTreeMap, BTreeSet};

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

pub use act::Act;
pub use blobs::{AllInto, Binary, Blobs, Depots, RegistryLayout, Unpacked};
pub use kubernetes::{ImageLoaded, ImageSource, KubeObject, Kubeconfig, NodeLabel, NodeUntainted, Stamp};
pub use packages::{Packages, WantedPackage};
pub use probe::Probe;

use crate::{Reset, SlotName};

/// One thing that must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "camelCase")]
pub enum Op {
    /// A file with this content.
    File(File),
    /// A directory.
    Dir(Dir),
    /// A directory that a service fills.
    StateDir(StateDir),
    /// What was in state folders before is moved out of their way.
    MoveAside(MoveAside),
    /// A symbolic link.
    Link(Link),
    /// Blobs are in the node's content store. The engine sends what is missing; the agent verifies.
    Blobs(Blobs),
    /// A blob as an executable file.
    Binary(Binary),
    /// Chosen members of an archive blob as files.
    Unpacked(Unpacked),
    /// Blobs of the node's content store in the file-system layout of the distribution registry.
    RegistryLayout(RegistryLayout),
    /// Packages of the operating system, from a repository of our own.
    Packages(Packages),
    /// State of a systemd unit.
    Unit(Unit),
    /// Kernel parameters, now and at boot.
    Sysctl(Sysctl),
    /// Kernel modules, now and at boot.
    KernelModule(KernelModule),
    /// No swap, now and at boot.
    SwapOff(SwapOff),
    /// Our managed block in /etc/hosts.
    HostsBlock(HostsBlock),
    /// DNS servers on top of the node's own.
    Resolver(Resolver),
    /// SELinux at most permissive.
    SelinuxMode(SelinuxMode),
    /// The host's name.
    Hostname(Hostname),
    /// An image in the container runtime, pinned.
    ImageLoaded(ImageLoaded),
    /// A kubeconfig for a user of the node, copied from kubeadm's admin.conf.
    Kubeconfig(Kubeconfig),
    /// Kubernetes objects applied.
    KubeObject(KubeObject),
    /// A taint that must not be on a node.
    NodeUntainted(NodeUntainted),
    /// A label that must be on a node.
    NodeLabel(NodeLabel),
    /// Whose node this is (`/var/lib/kubexm/stamp.json`).
    Stamp(Stamp),
    /// An action of the reviewed list.
    Act(Act),
    /// A part of taking a cluster away.
    Reset(Reset),
}

/// Where a file's content comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Content {
    /// A text of the plan.
    Text {
        /// Of the text.
        digest: Digest,
    },
    /// A slot's value.
    Slot {
        /// Which.
        slot: SlotName,
    },
}

/// A file with this content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct File {
    /// Absolute.
    pub path: String,
    /// Content.
    pub content: Content,
    /// Permission bits.
    pub mode: u32,
}

/// A directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dir {
    /// Absolute; parents are made with 0755.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
}

/// A directory that a service makes and fills, or a file that it writes: converge does nothing. Undo removes it with all
/// that is in it when it was not there before; of one that was there it removes what came and nothing else. It never
/// crosses a mount point: a mount below it stops the undo with its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StateDir {
    /// Absolute.
    pub path: String,
}

/// What these folders held before us lies beside them, or inside one that is a mount point or a link
/// ([`crate::state_folders::MOVED`]). Undo moves it back. A file system's `lost+found` stays where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveAside {
    /// Absolute; none lies in another.
    pub paths: Vec<String>,
}

/// A symbolic link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Link {
    /// Absolute path of the link.
    pub path: String,
    /// What it says.
    pub target: String,
}

/// State of a systemd unit. Its files are [`File`] ops of their own, earlier in the same or an ancestor step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unit {
    /// `containerd.service`.
    pub name: String,
    /// Started at boot.
    pub enabled: bool,
    /// Running or not; none leaves it (kubelet before `kubeadm init` crash-loops by design).
    pub running: Option<bool>,
    /// Paths whose content the running unit must have been started with. Their digests and the unit's invocation
    /// id are recorded under /run, so a restart is a state, not a handler.
    pub loaded: Vec<String>,
}

/// Kernel parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sysctl {
    /// Drop-in below /etc/sysctl.d.
    pub path: String,
    /// `net.ipv4.ip_forward` → `1`.
    pub values: BTreeMap<String, String>,
    /// Parameters that what is started later sets by itself (`net.ipv4.conf.all.route_localnet`, by kube-proxy): no value
    /// of them is wanted, and undo brings back the one that was found.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub remembered: BTreeSet<String>,
}

/// Kernel modules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KernelModule {
    /// Drop-in below /etc/modules-load.d.
    pub path: String,
    /// `br_netfilter`, `overlay`.
    pub modules: Vec<String>,
}

/// No swap: swapoff, and lines of /etc/fstab commented with our mark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SwapOff {}

/// Our managed block in /etc/hosts; foreign lines for the node's own name are commented (Debian's 127.0.1.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostsBlock {
    /// Lines `ADDRESS NAME [NAME…]` in order.
    pub lines: Vec<String>,
    /// The node's own name.
    pub own_name: String,
}

/// DNS servers on top of the node's own, in the way the node's resolver wants it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resolver {
    /// In order.
    pub nameservers: Vec<String>,
}

/// SELinux at most permissive, now and at boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelinuxMode {}

/// The host's name, now and at boot (cloud-init told to leave it).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hostname {
    /// DNS-1123.
    pub name: String,
}

impl StateDir {
    /// Where.
    pub fn at(path: &str) -> Self {
        Self { path: path.to_owned() }
    }
}

macro_rules! into_op {
    ($($kind:ident),*) => { $(impl From<$kind> for Op { fn from(op: $kind) -> Self { Self::$kind(op) } })* };
}
into_op!(
    File,
    Dir,
    StateDir,
    MoveAside,
    Link,
    Blobs,
    Binary,
    Unpacked,
    RegistryLayout,
    Packages,
    Unit,
    Sysctl,
    KernelModule,
    SwapOff,
    HostsBlock,
    Resolver,
    SelinuxMode,
    Hostname,
    ImageLoaded,
    Kubeconfig,
    KubeObject,
    NodeUntainted,
    NodeLabel,
    Stamp,
    Act,
    Reset
);
