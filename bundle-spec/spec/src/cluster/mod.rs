//! `cluster.yaml` (`kubexm.io/v1alpha1`), as types with every default filled in.
//!
//! Reading is [`parse::parse`]: strict, all problems at once. These types hold what this program builds;
//! a value that the design names and nothing builds yet is refused while parsing.

pub mod parse;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Serialize;

pub use self::parse::{for_version, parse, sample};
pub use crate::yaml::{Problem, ProblemKind, Problems};
use crate::{Digest, Platform};

/// The TCP port of an API server on its own host.
pub const API_PORT: u16 = 6443;

/// A cluster, or (with `kubernetes: None`) only a bundle of extras.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// `metadata.name`, a DNS-1123 label.
    pub name: String,
    /// The machines; may be empty when a bundle is built.
    pub hosts: Vec<Host>,
    /// Who does what; empty groups are filled with the defaults of the format.
    pub role_groups: RoleGroups,
    /// Node preparation.
    pub system: System,
    /// Entries written on every node.
    pub extra: Extra,
    /// None when the file has only `spec.bundle`.
    pub kubernetes: Option<Kubernetes>,
    /// Version of containerd without `v`, or the catalogue's default.
    pub runtime: Runtime,
    /// Pod network.
    pub network: Network,
    /// What stands before the control planes.
    pub load_balancer: LoadBalancer,
    /// Where images come from inside the gap.
    pub registry: Registry,
    /// What goes into the bundle beyond what the cluster needs.
    pub bundle: Bundle,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    /// Node name, DNS-1123.
    pub name: String,
    /// Where SSH reaches it: IP address or DNS name.
    pub address: String,
    /// Address used inside the cluster; `address` when not given.
    pub internal_address: Option<IpAddr>,
    /// SSH port.
    pub port: u16,
    /// SSH user; root, or one who may use sudo.
    pub user: String,
    /// Private key file on the controller.
    pub private_key_path: Option<PathBuf>,
    /// Password for SSH, when keys are not used or not enough.
    pub password: Option<SecretSource>,
    /// Whether keys of the operator's ssh-agent are used.
    pub agent: bool,
    /// Password for sudo, where it asks for one.
    pub sudo_password: Option<SecretSource>,
    /// Hosts that the connection goes through, the nearest first.
    pub via: Vec<Jump>,
    /// Node labels.
    pub labels: BTreeMap<String, String>,
}

/// Where a secret is to be had when it is needed (`passwordFrom: {env: NAME}` or `{file: PATH}`). The secret itself never
/// stands in cluster.yaml: that file travels in the bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SecretSource {
    /// An environment variable of the controller.
    Env(String),
    /// A file on the controller; one newline at its end is left out.
    File(PathBuf),
}

/// A host on the way to another one (`via`): SSH is forwarded through it (RFC 4254, direct-tcpip).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Jump {
    /// IP address or DNS name.
    pub address: String,
    /// SSH port.
    pub port: u16,
    /// SSH user; it needs no sudo there.
    pub user: String,
    /// Private key file on the controller; the host's own when none.
    pub private_key_path: Option<PathBuf>,
    /// Password for SSH.
    pub password: Option<SecretSource>,
    /// Whether keys of the operator's ssh-agent are used.
    pub agent: bool,
}

/// Names of hosts by role, ranges (`node[1:3]`) already written out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleGroups {
    /// etcd members; with etcd type `kubeadm` the same as `control_plane`.
    pub etcd: Vec<String>,
    /// `master` (alias `control-plane`) in the file.
    pub control_plane: Vec<String>,
    /// Workers. A control plane that is also a worker is left untainted.
    pub worker: Vec<String>,
    /// Registry hosts; the first control plane when not given.
    pub registry: Vec<String>,
}

/// `spec.system`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct System {
    /// What becomes of firewalld and ufw.
    pub firewall: Firewall,
    /// What becomes of SELinux.
    pub selinux: Selinux,
}

/// `spec.system.firewall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Firewall {
    /// Left as it is.
    Keep,
    /// firewalld and ufw stopped and disabled (restored on reset).
    Off,
}

/// `spec.system.selinux`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Selinux {
    /// Left as it is.
    Keep,
    /// Permissive now and at boot; never `disabled` (going back would need a relabel).
    Permissive,
}

/// `spec.extra`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Extra {
    /// Lines for /etc/hosts.
    pub hosts: Vec<ExtraHost>,
    /// DNS servers put on top of the node's own.
    pub resolves: Vec<IpAddr>,
}

/// One entry of `spec.extra.hosts`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtraHost {
    /// DNS name.
    pub domain: String,
    /// Its address.
    pub address: IpAddr,
}

/// `spec.kubernetes`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kubernetes {
    /// `v1.34.4`, `v1.34` (its newest known patch), or none (the catalogue's default).
    pub version: Option<String>,
    /// `metadata.name` when not given.
    pub cluster_name: String,
    /// `cluster.local`.
    pub dns_domain: String,
    /// kube-proxy's mode.
    pub proxy_mode: ProxyMode,
    /// 110.
    pub max_pods: u32,
    /// Extra names and addresses of the API server's certificate.
    pub cert_sans: Vec<String>,
    /// Raw KubeletConfiguration fields merged over ours.
    pub kubelet: serde_json::Map<String, serde_json::Value>,
    /// Raw KubeProxyConfiguration fields merged over ours.
    pub kube_proxy: serde_json::Map<String, serde_json::Value>,
}

/// kube-proxy's mode. (`ipvs` is known and not built yet.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyMode {
    /// The default.
    Iptables,
    /// nftables, stable from 1.33.
    Nftables,
}

/// `spec.runtime`; only containerd is built.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    /// Without `v`; the catalogue's default when none.
    pub version: Option<String>,
}

/// `spec.network`; only flannel is built.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// IPv4 network of pods, `10.233.64.0/18`.
    pub pod_cidr: String,
    /// IPv4 network of services, `10.233.0.0/18`.
    pub service_cidr: String,
    /// Interface of the pod network; by the node's internal address when none.
    pub interface: Option<String>,
}

/// `spec.loadBalancer`: what the control plane's name leads to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancer {
    /// What stands there.
    pub mode: LoadBalancerMode,
    /// Name of the control plane; `lb.<cluster>.kubexm.internal` when none.
    pub domain: Option<String>,
}

/// `spec.loadBalancer.mode`. (`internal`, and the external types that we would set up, are known and not built yet.)
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "mode", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum LoadBalancerMode {
    /// None: the name has the addresses of all control planes, the first one's first.
    #[default]
    None,
    /// `external` with `external.type: external`: an address of the user's, which spreads over the control planes.
    External {
        /// Its address.
        vip: IpAddr,
        /// Its TCP port, 6443.
        port: u16,
    },
}

/// `spec.registry`. (`harbor` and `external` are known and not built yet.)
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Registry {
    /// What serves images.
    pub kind: RegistryKind,
    /// Its TCP port: 5443 embedded, 5000 with `registry`.
    pub port: u16,
    /// Where `registry` has its data; `/mnt/registry`.
    pub data_dir: String,
}

/// `spec.registry.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RegistryKind {
    /// kubexm-install itself, read-only, from the node's content store.
    Embedded,
    /// The distribution registry as a unit, its file-system layout written by us.
    Registry,
    /// No registry: images are imported into every node's runtime.
    None,
}

/// `spec.bundle`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bundle {
    /// `[linux/amd64]`.
    pub platforms: Vec<Platform>,
    /// Zone name or path of a zone file; `KMZONE` and `--zone` come first.
    pub zone: Option<String>,
    /// Images beyond the cluster's own.
    pub extra_images: Vec<ExtraImage>,
    /// Files beyond the cluster's own.
    pub extra_files: Vec<ExtraFile>,
    /// Optional tools left out (`crictl`, `helm`).
    pub exclude: Vec<String>,
}

/// `{name}` or `{name, from: oci:DIR}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtraImage {
    /// Full reference with tag or digest, `docker.io/library/busybox:1`.
    pub name: String,
    /// An OCI layout on the builder's disk.
    pub from: Option<PathBuf>,
}

/// `{url, sha256}` or `{path}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "type", rename_all_fields = "camelCase")]
pub enum ExtraFile {
    /// Fetched, and believed by its digest.
    Url {
        /// http or https.
        url: String,
        /// Of the content.
        sha256: Digest,
    },
    /// On the builder's disk.
    Path {
        /// As written, relative to cluster.yaml; the builder makes it ready to be opened.
        path: PathBuf,
    },
}

impl Cluster {
    /// The first control plane, the host that runs `kubeadm init`.
    pub fn first_control_plane(&self) -> Option<&Host> {
        self.role_groups.control_plane.first().and_then(|name| self.host(name))
    }

    /// The host that serves the depot: the first of the registry role.
    pub fn registry_host(&self) -> Option<&Host> {
        self.role_groups.registry.first().and_then(|name| self.host(name)).or_else(|| self.first_control_plane())
    }

    /// The name that the control plane is reached by inside the cluster.
    pub fn control_plane_name(&self) -> String {
        self.load_balancer.domain.clone().unwrap_or_else(|| crate::names::control_plane_name(&self.name))
    }

    /// The TCP port beside that name.
    pub const fn control_plane_port(&self) -> u16 {
        match self.load_balancer.mode {
            LoadBalancerMode::None => API_PORT,
            LoadBalancerMode::External { port, .. } => port,
        }
    }

    /// A host by its name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|h| h.name == name)
    }
}

impl Registry {
    /// TCP port of the depot, which serves blobs and files beside every registry that is not itself the embedded one.
    pub const fn depot_port(&self) -> u16 {
        match self.kind {
            RegistryKind::Registry => crate::names::DEPOT_PORT,
            RegistryKind::Embedded | RegistryKind::None => self.port,
        }
    }
}

impl Host {
    /// The address used inside the cluster, when it is known without asking DNS.
    pub fn node_ip(&self) -> Option<IpAddr> {
        self.internal_address.or_else(|| self.address.parse().ok())
    }
}
