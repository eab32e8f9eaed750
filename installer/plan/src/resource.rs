//! What ops change on a host, by name: two steps without an order between them must not change the same resource.

use std::fmt;

use kubexm_spec::Digest;

/// Something on a host or in the cluster that ops change or need.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// A file, link or folder by its absolute path; with a trailing `/*`, every file directly in a folder.
    Path(String),
    /// What a service writes into a folder, or the file that it writes.
    State(String),
    /// The content of a folder before kubexm.
    Before(String),
    /// A blob of the node's content store.
    Blob(Digest),
    /// A systemd unit. As a need: it must be running.
    Unit(String),
    /// A package of the operating system.
    Package(String),
    /// dpkg or rpm, which runs one operation at a time.
    PackageManager,
    /// A kernel parameter.
    Sysctl(String),
    /// A kernel module.
    Module(String),
    /// Swap.
    Swap,
    /// SELinux's mode.
    Selinux,
    /// A boolean of SELinux's policy.
    SelinuxBoolean(String),
    /// The host's name.
    Hostname,
    /// Host names in /etc/hosts.
    HostNames,
    /// DNS servers of the host.
    Nameservers,
    /// An image of the container runtime.
    Image(String),
    /// A kubeconfig of a user of the node.
    Kubeconfig(String),
    /// Objects of the cluster, by the name of their op.
    Objects(String),
    /// A release of helm.
    Release {
        /// Its namespace.
        namespace: String,
        /// Its name there.
        name: String,
    },
    /// A project of the cluster's Harbor.
    HarborProject(String),
    /// A robot account of the cluster's Harbor.
    HarborRobot(String),
    /// An image in the cluster's Harbor, `registry.k8s.io/pause:3.10.1`.
    HarborImage(String),
    /// A node object.
    Node(String),
    /// A member of etcd, by its name.
    Member(String),
    /// The members that the host's API server asks.
    EtcdServers,
    /// The members in kubeadm's configuration of the cluster.
    EtcdEndpoints,
    /// The authority that a kubeconfig of the host trusts.
    TrustedBy(String),
    /// The authority that the cluster publishes to pods and to nodes that join.
    PublishedAuthority,
    /// Keys in an etcd of the user's, by what they begin with.
    EtcdKeys(String),
    /// A taint of a node.
    Taint {
        /// Node name.
        node: String,
        /// `node-role.kubernetes.io/control-plane`.
        key: String,
    },
    /// A label of a node.
    Label {
        /// Node name.
        node: String,
        /// Key.
        key: String,
    },
    /// An annotation of a node.
    Annotation {
        /// Node name.
        node: String,
        /// Key.
        key: String,
    },
    /// What of a node is cluster.yaml's, as the cluster has recorded it.
    NodeRecord(String),
    /// The effect of a user's script, by its id.
    Script(String),
    /// The stamp of the node.
    Stamp,
    /// What kubeadm creates on a host.
    Kubeadm,
    /// The host in its role as a control plane.
    ControlPlane,
    /// Pods of the host.
    Pods,
    /// A static pod of the host: that it runs with its files as they are.
    StaticPod(String),
    /// What pods make in the host's network.
    Network,
    /// The running container runtime; only a need.
    Runtime,
    /// The admin's kubeconfig, which kubeadm writes on a control plane; only a need.
    AdminConf,
    /// The cluster's API server; only a need.
    Api,
    /// The registry or depot of the cluster, serving images; only a need.
    Registry,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(path),
            Self::State(path) => write!(f, "state of {path}"),
            Self::Before(path) => write!(f, "what was in {path}"),
            Self::Blob(digest) => write!(f, "blob {digest}"),
            Self::Unit(name) => write!(f, "unit {name}"),
            Self::Package(name) => write!(f, "package {name}"),
            Self::PackageManager => f.write_str("packages"),
            Self::Sysctl(name) => write!(f, "sysctl {name}"),
            Self::Module(name) => write!(f, "module {name}"),
            Self::Swap => f.write_str("swap"),
            Self::Selinux => f.write_str("SELinux"),
            Self::SelinuxBoolean(name) => write!(f, "SELinux boolean {name}"),
            Self::Hostname => f.write_str("hostname"),
            Self::HostNames => f.write_str("host names"),
            Self::Nameservers => f.write_str("nameservers"),
            Self::Image(reference) => write!(f, "image {reference}"),
            Self::Kubeconfig(user) => write!(f, "kubeconfig of {user}"),
            Self::Objects(name) => write!(f, "objects {name}"),
            Self::Release { namespace, name } => write!(f, "release {namespace}/{name}"),
            Self::HarborProject(name) => write!(f, "Harbor's project {name}"),
            Self::HarborRobot(name) => write!(f, "Harbor's robot {name}"),
            Self::HarborImage(name) => write!(f, "image {name} in Harbor"),
            Self::Node(name) => write!(f, "node {name}"),
            Self::Member(name) => write!(f, "etcd member {name}"),
            Self::EtcdServers => f.write_str("the API server's members of etcd"),
            Self::EtcdEndpoints => f.write_str("kubeadm's members of etcd"),
            Self::TrustedBy(path) => write!(f, "authority that {path} trusts"),
            Self::PublishedAuthority => f.write_str("the published authority"),
            Self::EtcdKeys(prefix) => write!(f, "keys of etcd below {prefix}/"),
            Self::Taint { node, key } => write!(f, "node {node} taint {key}"),
            Self::Label { node, key } => write!(f, "node {node} label {key}"),
            Self::Annotation { node, key } => write!(f, "node {node} annotation {key}"),
            Self::NodeRecord(node) => write!(f, "record of node {node}"),
            Self::Script(id) => write!(f, "script {id}"),
            Self::Stamp => f.write_str("stamp"),
            Self::Kubeadm => f.write_str("kubeadm"),
            Self::ControlPlane => f.write_str("control plane"),
            Self::Pods => f.write_str("pods"),
            Self::StaticPod(name) => write!(f, "static pod {name}"),
            Self::Network => f.write_str("network"),
            Self::Runtime => f.write_str("container runtime"),
            Self::AdminConf => f.write_str("admin.conf"),
            Self::Api => f.write_str("API server"),
            Self::Registry => f.write_str("registry"),
        }
    }
}

impl Resource {
    /// Whether they overlap: `/opt/cni/bin/*` contains `/opt/cni/bin/bridge`.
    pub fn overlaps(&self, other: &Self) -> bool {
        let holds = |all: &str, path: &str| {
            all.strip_suffix('*')
                .and_then(|folder| path.strip_prefix(folder))
                .is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
        };
        match (self, other) {
            (Self::Path(one), Self::Path(other)) => one == other || holds(one, other) || holds(other, one),
            (one, other) => one == other,
        }
    }
}

/// A change of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceChange {
    /// The resource that is changed.
    pub resource: Resource,
    /// Its value afterwards, in one line, with [`crate::SlotName::placeholder`] for a slot's value. None if the op does
    /// not determine it: a service writes it, or it depends on the host.
    pub value: Option<String>,
    /// Whether several steps may make the same change without an order between them.
    pub shared: bool,
}

impl ResourceChange {
    /// A change that needs an order with all other changes of the same resource.
    pub fn sets(resource: Resource, value: impl Into<String>) -> Self {
        Self { resource, value: Some(value.into()), shared: false }
    }

    /// [`ResourceChange::sets`] for a file.
    pub fn file(path: impl Into<String>, value: impl Into<String>) -> Self {
        Self::sets(Resource::Path(path.into()), value)
    }

    /// A change with an unknown result.
    pub const fn unknown(resource: Resource) -> Self {
        Self { resource, value: None, shared: false }
    }

    /// The same change, allowed without an order with equal ones.
    #[must_use]
    pub fn shared(self) -> Self {
        Self { shared: true, ..self }
    }
}
