//! The op kinds: each is one thing that must hold on a host. There is no generic "run this command".

use std::collections::{BTreeMap, BTreeSet};

use kubexm_spec::Digest;
use kubexm_spec::depot::Repository;
use serde::{Deserialize, Serialize};

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

/// A directory that a service makes and fills, or a file that it writes: converge does nothing, and undo removes it with all
/// that is in it when it was not there before. It never crosses a mount point: a mount below it stops the undo with its
/// name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StateDir {
    /// Absolute.
    pub path: String,
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

/// Blobs in the node's content store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Blobs {
    /// Sorted by digest, sizes in bytes.
    pub blobs: BTreeMap<Digest, u64>,
    /// Depots of this cluster that may have them, asked before the controller sends anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depots: Option<Depots>,
}

/// Depots that a node takes blobs from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Depots {
    /// `https://10.0.0.5:5443`, in the order they are asked; a blob is `<url>/blobs/sha256/<hex>`.
    pub urls: Vec<String>,
    /// PEM file on the node with the CA to trust them by.
    pub ca: String,
}

impl Depots {
    /// Seconds that a node may take to get so many bytes from them; what is not there then, the controller sends. Two
    /// mebibytes a second are little in one's own network, and a depot that hangs is found out within a minute.
    pub fn limit_s(&self, bytes: u64) -> u64 {
        let hanging = u64::try_from(self.urls.len()).unwrap_or(u64::MAX).saturating_mul(60);
        (bytes / (2 << 20)).saturating_add(hanging).saturating_add(120)
    }
}

/// A blob as an executable file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Binary {
    /// Absolute.
    pub path: String,
    /// Blob of the node's content store.
    pub blob: Digest,
    /// Permission bits.
    pub mode: u32,
}

/// Chosen members of a gzip-compressed tar archive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unpacked {
    /// Blob of the node's content store.
    pub blob: Digest,
    /// Member path in the archive (without leading `./`) → absolute path on the host; mode 0755.
    pub members: BTreeMap<String, String>,
    /// When given, every regular file below this folder of the archive (`""`: all) goes flat into the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_into: Option<AllInto>,
}

/// Every regular file of an archive folder, into one directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AllInto {
    /// Folder in the archive, `""` for its top.
    pub folder: String,
    /// Absolute directory on the host.
    pub directory: String,
}

/// Blobs of the node's content store, as the distribution registry keeps them on a file system
/// (`docker/registry/v2` below its root; distribution v3, registry/storage/paths.go). Blobs are hard links or reflinks
/// where the file system has them. What others put there stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryLayout {
    /// `rootdirectory` of the registry, absolute.
    pub data_dir: String,
    /// Repositories by name, `registry.k8s.io/pause`.
    pub repositories: BTreeMap<String, Repository>,
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

/// An image in containerd's `k8s.io` namespace, pinned against image GC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageLoaded {
    /// `registry.k8s.io/pause:3.10.1`.
    pub reference: String,
    /// What the reference must resolve to.
    pub digest: Digest,
    /// `linux/amd64`.
    pub platform: String,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "ImageSource::is_registry")]
    pub source: ImageSource,
}

/// Where an image comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ImageSource {
    /// Pulled from the cluster's registry, as containerd was pointed at it.
    #[default]
    Registry,
    /// Imported from the node's content store.
    Store {
        /// The index (or single manifest), the platform's manifest, config and layers.
        blobs: BTreeSet<Digest>,
    },
}

impl ImageSource {
    /// Whether it is the registry.
    pub const fn is_registry(&self) -> bool {
        matches!(self, Self::Registry)
    }
}

/// admin.conf for a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kubeconfig {
    /// User of the node; its home's `.kube/config` is written, owned by it.
    pub user: String,
}

/// Objects applied with the admin kubeconfig (server-side apply, field manager `kubexm`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeObject {
    /// For people and for the applied-stamp: `flannel`.
    pub name: String,
    /// YAML documents, a text of the plan.
    pub text: Digest,
}

/// A taint that must not be on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeUntainted {
    /// Node name.
    pub node: String,
    /// `node-role.kubernetes.io/control-plane`.
    pub key: String,
}

/// A label that must be on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeLabel {
    /// Node name.
    pub node: String,
    /// Key.
    pub key: String,
    /// Value.
    pub value: String,
}

/// Whose node this is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stamp {
    /// `metadata.name`.
    pub cluster: String,
}

/// The reviewed list of imperative actions. Each knows how to see that it has happened and how to clear what a
/// kill in the middle leaves; on a real machine each runs as a transient systemd unit that a resume attaches to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Act {
    /// `kubeadm init --config`. Done: admin.conf is there and the API server answers it. Partial: `kubeadm reset`.
    KubeadmInit {
        /// Absolute path of kubeadm's config.
        config: String,
        /// `unix:///run/containerd/containerd.sock`.
        cri_socket: String,
        /// Preflight checks of kubeadm that the support matrix says to ignore.
        ignore: Vec<String>,
    },
    /// `kubeadm join --config`. Done: kubelet.conf is there, kubelet runs, and on a control plane its static pods and
    /// admin.conf answer. Partial: `kubeadm reset`. The config is a secret while it lives: it is written below /run
    /// for the call, and removed.
    KubeadmJoin {
        /// kubeadm's JoinConfiguration, a text of the plan, with [`Act::placeholder`]s for the slots.
        config: Digest,
        /// Slots whose values go into the text.
        slots: Vec<SlotName>,
        /// `unix:///run/containerd/containerd.sock`.
        cri_socket: String,
        /// Joins as a control plane, with a stacked etcd member.
        control_plane: bool,
        /// Preflight checks of kubeadm that the support matrix says to ignore.
        ignore: Vec<String>,
    },
    /// A node's object is awaited, on a control plane and before the node joins: what is seen here tells whether the way
    /// back, [`Act::NodeDelete`], may delete it. Done: there is such a node, or it was just seen that there is none.
    NodeAwaited {
        /// Node name.
        node: String,
    },
    /// The node's object is deleted, asked of the API from a control plane. Done: there is no such node, or no API
    /// server any more on this host.
    NodeDelete {
        /// Node name.
        node: String,
    },
    /// `kubeadm reset --force`: the way back of init and join. Done: no /etc/kubernetes/*.conf, no static pods.
    KubeadmReset {
        /// `unix:///run/containerd/containerd.sock`.
        cri_socket: String,
    },
}

impl StateDir {
    /// Where.
    pub fn at(path: &str) -> Self {
        Self { path: path.to_owned() }
    }
}

impl Act {
    /// What stands in a text for a slot's value.
    pub fn placeholder(slot: &SlotName) -> String {
        format!("{{{{slot:{}}}}}", slot.0)
    }
}

/// Something to look at until it holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "probe", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Probe {
    /// containerd answers over CRI with the `k8s.io` namespace, and `config dump` shows what we wrote.
    CriReady {
        /// Strings that `containerd config dump` must contain.
        config_dump: Vec<String>,
    },
    /// An HTTPS GET answers 200, trusting the CA in this file.
    Https {
        /// URL.
        url: String,
        /// PEM file on the node.
        ca: String,
    },
    /// A registry answers for every reference and every blob with its digest, trusting the CA in this file.
    RegistryServes {
        /// `https://registry.example.kubexm.internal:5000`.
        url: String,
        /// PEM file on the node.
        ca: String,
        /// Everything that is asked for.
        repositories: BTreeMap<String, Repository>,
    },
    /// A node is Ready.
    NodeReady {
        /// Node name.
        node: String,
    },
    /// Every pod of these namespaces runs and is ready, and no container uses an image outside the list.
    PodsRunning {
        /// Namespaces.
        namespaces: Vec<String>,
        /// Full references that may appear.
        images: Vec<String>,
    },
    /// From inside a pod's network namespace (our pause image): the cluster DNS resolves the API service's name, and
    /// the service address accepts a connection.
    PodNetwork {
        /// Node the pod is put on.
        node: String,
        /// Pause image reference.
        image: String,
        /// `kubernetes.default.svc.cluster.local`.
        name: String,
        /// Cluster DNS address.
        dns: String,
        /// `10.233.0.1:443`.
        service: String,
    },
}

macro_rules! into_op {
    ($($kind:ident),*) => { $(impl From<$kind> for Op { fn from(op: $kind) -> Self { Self::$kind(op) } })* };
}
into_op!(
    File,
    Dir,
    StateDir,
    Link,
    Blobs,
    Binary,
    Unpacked,
    RegistryLayout,
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
