//! Conditions that are polled until they are true.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use kubexm_spec::Digest;
use kubexm_spec::cluster::RuntimeKind;
use kubexm_spec::depot::Repository;
use serde::{Deserialize, Serialize};

use super::act::KubeadmUpgrade;
use super::image_loaded::is_containerd;
use crate::balancer::MovedBy;

/// A condition that is polled until it is true.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "probe", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Probe {
    /// The runtime answers over CRI and has loaded kubexm's configuration.
    CriReady {
        /// The runtime.
        #[serde(default, skip_serializing_if = "is_containerd")]
        runtime: RuntimeKind,
        /// Strings that the dumped configuration must contain.
        config_dump: Vec<String>,
    },
    /// An HTTPS GET answers 200, trusting the CA in this file.
    Https {
        /// URL.
        url: String,
        /// PEM file on the node.
        ca: String,
        /// File on the node with the `Authorization` header that the server demands. Then it must refuse (401) whoever has
        /// none, too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        login: Option<String>,
    },
    /// The API server behind an address answers over TLS, trusting the CA in this file: 200, or that it refuses whoever
    /// has no certificate (401, 403), as it does where `anonymous-auth` is off.
    ApiReady {
        /// `https://127.0.0.1:6443/readyz`.
        url: String,
        /// PEM file on the node.
        ca: String,
    },
    /// keepalived runs on this host, and the virtual address accepts connections: here, or on the other host that has it.
    VirtualAddress {
        /// The address with its TCP port, `10.0.0.100:6443`.
        address: SocketAddr,
    },
    /// This host has an address on one of its interfaces.
    HasAddress {
        /// The address.
        address: IpAddr,
    },
    /// Exactly one of these hosts has an address that moves between them. No host can answer that for the others: the controller asks each
    /// ([`Self::HasAddress`]).
    OneHasAddress {
        /// The address.
        address: IpAddr,
        /// Hosts of the plan.
        hosts: Vec<String>,
        /// What moves it.
        moved_by: MovedBy,
        /// So many times in a row, a second apart: a host that hears no other one takes the address some seconds after its start.
        looks: u32,
    },
    /// A registry returns every reference and every blob with its digest, trusting the CA in this file.
    RegistryServes {
        /// `https://registry.example.kubexm.internal:5000`.
        url: String,
        /// PEM file on the node.
        ca: String,
        /// File on the node with the `Authorization` header that the registry demands.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        login: Option<String>,
        /// The content to request.
        repositories: BTreeMap<String, Repository>,
    },
    /// A depot that runs answers for none of these blobs: it has read again which bundles it serves.
    DepotLacks {
        /// `https://registry.example.kubexm.internal:5443`.
        url: String,
        /// PEM file on the node.
        ca: String,
        /// File on the node with the `Authorization` header that the depot demands.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        login: Option<String>,
        /// Which the depot would serve, had it not been told to stop.
        blobs: BTreeSet<Digest>,
    },
    /// A registry answers for none of these manifests.
    RegistryLacks {
        /// `https://registry.example.kubexm.internal:5000`.
        url: String,
        /// PEM file on the node.
        ca: String,
        /// File on the node with the `Authorization` header that the registry demands.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        login: Option<String>,
        /// By repository: what it would serve, had its links not been taken away.
        manifests: BTreeMap<String, BTreeSet<Digest>>,
    },
    /// Nothing in the cluster uses one of these images: pods that have not ended, what makes pods, and hooks of helm's releases.
    ImagesUnused {
        /// `registry.k8s.io/pause:3.10.1`, or with `@` and a digest.
        images: BTreeSet<String>,
    },
    /// Harbor reports that it and all its components are healthy (`/api/v2.0/health`, which answers 200 in any case).
    HarborHealthy {
        /// `https://registry.example.kubexm.internal`.
        url: String,
        /// PEM file on the node.
        ca: String,
    },
    /// chrony has selected a time server, according to `chronyc sources`.
    ClockFollows {
        /// The configured servers, for messages.
        servers: Vec<String>,
    },
    /// Members of etcd answer a client with this certificate, have a leader, report no error, and know each other.
    EtcdMembersHealthy {
        /// Client URLs by the names of the members.
        members: BTreeMap<String, String>,
        /// They are not known by these names: an etcd of the user's.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unnamed: bool,
        /// PEM file on the node with their CA.
        ca: String,
        /// PEM file on the node with the client's certificate.
        certificate: String,
        /// PEM file on the node with its key.
        key: String,
    },
    /// A node is Ready.
    NodeReady {
        /// Node name.
        node: String,
        /// `v1.34.4`, the version that its kubelet must report; none for any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kubelet: Option<String>,
    },
    /// The static pods of a control plane are Ready, according to the API server.
    StaticPodsReady {
        /// Node name.
        node: String,
        /// The images that they must have, by component.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        images: BTreeMap<String, String>,
        /// etcd is not kubeadm's, and has no pod.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        external_etcd: bool,
    },
    /// Every member that this host's etcd lists has started, votes and is healthy, by its own status.
    EtcdHealthy {
        /// So many members at least.
        members: usize,
    },
    /// kubeadm takes the configuration of an upgrade of the cluster, and a dry run of `kubeadm upgrade apply` succeeds; or the
    /// upgrade has begun already.
    KubeadmUpgradePasses {
        /// The upgrade that follows.
        upgrade: Box<KubeadmUpgrade>,
    },
    /// A node is Ready except for the pod network, which somebody else installs; a Ready node is accepted too.
    NodeAwaitsNetwork {
        /// Node name.
        node: String,
    },
    /// A node is cordoned, and has no pods except those of DaemonSets and static pods. While it is false, the answer names
    /// the pods that are left, and the budgets that do not let them go.
    NodeDrained {
        /// Node name.
        node: String,
        /// As that of [`super::NodeDrain`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unless_kubelet: Option<String>,
        /// As that of [`super::NodeDrain`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unless_packages: Option<String>,
    },
    /// Every pod in these namespaces is running and ready, and no container uses an image outside the list.
    PodsRunning {
        /// Check only pods that kubeadm creates and that need no pod network (static pods and kube-proxy's). The others
        /// wait for a network, or belong to a network that somebody else installed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        kubeadm_only: bool,
        /// Namespaces.
        namespaces: Vec<String>,
        /// Of kube-system only pods of these workloads (DaemonSets, Deployments, static pods): what a site runs there besides is not
        /// kubexm's to judge. Empty in plans of earlier programs: all of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        workloads: Vec<String>,
        /// Full references of the allowed images.
        images: Vec<String>,
        /// What pods on other nodes than these use is allowed, too: it ran before. Empty: nothing but the list is.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        new_nodes: Vec<String>,
    },
    /// From inside a pod's network namespace (with the pause image): the cluster DNS resolves the name of the API's
    /// Service, and the Service address accepts a connection.
    PodNetwork {
        /// Node to run the pod on.
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

impl Probe {
    /// Whether its answers describe the progress of its step's own change, so that it is also asked while that change
    /// takes long.
    pub const fn follows_change(&self) -> bool {
        matches!(self, Self::NodeDrained { .. })
    }

    /// How many times in a row it must be true.
    pub const fn looks(&self) -> u32 {
        match self {
            Self::OneHasAddress { looks, .. } => *looks,
            _ => 1,
        }
    }

    /// The hosts that the controller asks for it, beside that of its step.
    pub fn hosts(&self) -> &[String] {
        match self {
            Self::OneHasAddress { hosts, .. } => hosts,
            _ => &[],
        }
    }
}

impl std::fmt::Display for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CriReady { runtime, config_dump } => {
                write!(f, "{} answers over CRI with {}", runtime, config_dump.join(" | "))
            }
            Self::Https { url, ca, login } => {
                write!(f, "{url} answers, trusted by {ca}")?;
                match login {
                    Some(login) => write!(f, ", and only with the login in {login}"),
                    None => Ok(()),
                }
            }
            Self::ApiReady { url, ca } => write!(f, "{url} answers, trusted by {ca}"),
            Self::VirtualAddress { address } => write!(f, "{address} accepts connections"),
            Self::HasAddress { address } => write!(f, "this host has {address}"),
            Self::OneHasAddress { address, hosts, .. } => {
                write!(f, "exactly one of {} has {address}", hosts.join(", "))
            }
            Self::RegistryServes { url, repositories, .. } => {
                write!(f, "{url} serves every reference and blob of {} repositories", repositories.len())
            }
            Self::DepotLacks { url, .. } => write!(f, "{url} serves the removed bundles no more"),
            Self::RegistryLacks { url, .. } => write!(f, "{url} serves the images of the removed bundles no more"),
            Self::ImagesUnused { images } => write!(f, "nothing in the cluster uses one of {} images", images.len()),
            Self::HarborHealthy { url, ca } => write!(f, "Harbor at {url} is healthy, trusted by {ca}"),
            Self::ClockFollows { servers } => write!(f, "the clock follows {}", servers.join(" or ")),
            Self::EtcdMembersHealthy { members, unnamed: true, .. } => {
                let urls: Vec<&str> = members.values().map(String::as_str).collect();
                write!(f, "etcd answers at {} and is healthy", urls.join(", "))
            }
            Self::EtcdMembersHealthy { members, .. } => {
                let names: Vec<&str> = members.keys().map(String::as_str).collect();
                write!(f, "etcd's {} healthy", counted(&names))
            }
            Self::NodeReady { node, kubelet: None } => write!(f, "node {node} is Ready"),
            Self::NodeReady { node, kubelet: Some(version) } => {
                write!(f, "node {node} is Ready with kubelet {version}")
            }
            Self::StaticPodsReady { node, images, .. } => {
                write!(f, "static pods of {node} are Ready")?;
                if images.is_empty() { Ok(()) } else { f.write_str(" with the images of the bundle") }
            }
            Self::EtcdHealthy { members } => write!(f, "all members of etcd, at least {members}, are healthy"),
            Self::KubeadmUpgradePasses { upgrade } => {
                write!(f, "kubeadm would upgrade the cluster to {}", upgrade.version)
            }
            Self::NodeAwaitsNetwork { node } => write!(f, "node {node} lacks nothing but a pod network"),
            Self::NodeDrained { node, .. } => write!(f, "node {node} is drained"),
            Self::PodsRunning { namespaces, images, kubeadm_only, .. } => {
                let which = if *kubeadm_only { "static pods and kube-proxy" } else { "pods" };
                write!(f, "{which} of {} run, with none but {} images", namespaces.join(" and "), images.len())
            }
            Self::PodNetwork { node, name, dns, service, .. } => {
                write!(f, "from a pod on {node} {dns} resolves {name} and {service} answers")
            }
        }
    }
}

/// `member a is` or `members a, b are`.
fn counted(names: &[&str]) -> String {
    match names {
        [one] => format!("member {one} is"),
        all => format!("members {} are", all.join(", ")),
    }
}
