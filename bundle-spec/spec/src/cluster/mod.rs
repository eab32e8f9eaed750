//! `cluster.yaml` (`kubexm.io/v1alpha1`), as types with every default filled in; one file per part of the format.
//!
//! Reading is [`parse::parse`]: strict, all problems at once. Every field of the format has a place here; what no recipe
//! installs yet is reported by `kubexm_recipes::unsupported`, not by the reader, because a bundle can be built of it.

mod addon;
mod addon_secret;
mod bundle;
mod certificates;
mod data_folder;
mod etcd;
mod field;
mod flags;
mod host;
mod image_signatures;
mod kubernetes;
mod load_balancer;
mod material;
mod materials;
mod network;
mod network_options;
mod operator;
pub mod parse;
mod profiles;
mod registry;
mod registry_login;
mod roles;
mod rule_index;
mod runtime;
mod schema;
mod secret;
mod secret_from;
mod show;
mod storage;
mod system;
mod taint;

use std::collections::HashMap;

use serde::Serialize;

pub use self::addon::{Addon, AddonKind, AddonSource};
pub use self::addon_secret::AddonSecret;
pub use self::bundle::{Bundle, ExtraFile, ExtraImage};
pub use self::certificates::{ClusterCa, Validity, one_certificate};
pub use self::etcd::{Backup, Etcd, EtcdKind, ExternalEtcd, Snapshots};
pub use self::host::{Host, Jump, Role, RoleGroups, SecretSource};
pub use self::image_signatures::{Acceptance, EVERY_OTHER, ImageSignatureRule, SignedAs, SignerIdentity, rule_for};
pub use self::kubernetes::{Audit, AuditWebhook, Kubernetes, KubernetesKind, NodeLocalDns, ProxyMode};
pub use self::load_balancer::{
    API_PORT, BALANCER_STATUS_PORT, EARLIER_STATUS_PORT, ExternalKind, InternalKind, LoadBalancer, LoadBalancerMode,
};
pub use self::material::{MATERIAL_LIMIT, MATERIALS, MATERIALS_LIMIT, MaterialFile};
pub use self::materials::{BadMaterial, MaterialOf, MaterialUse};
pub use self::network::{Network, NetworkPlugin, overlap};
pub use self::operator::Operator;
pub use self::parse::values::is_label;
pub use self::parse::{FILE, Read, for_version, full_reference, parse, read, sample};
pub use self::profiles::Profile;
pub use self::registry::{Harbor, Listen, Registry, RegistryAuth, RegistryKind, RegistryPassword};
pub use self::registry_login::{ExternalRegistry, RegistryLogin};
pub use self::roles::Roles;
pub use self::rule_index::RuleIndex;
pub use self::runtime::{Runtime, RuntimeKind};
pub use self::schema::schema;
pub use self::secret::{
    AUDIT_WEBHOOK, CLUSTER_CA_KEY, EXTERNAL_CA, EXTERNAL_ETCD_KEY, HARBOR_ADMIN, HARBOR_DATABASE, SecretOf, SecretUse,
    password_line,
};
pub use self::secret_from::{DockerLogin, SecretFrom};
pub use self::show::{Shown, document, show};
pub use self::storage::{Nfs, OpenEbs, Provisioner, Storage};
pub use self::system::{Extra, ExtraHost, Firewall, OsPackages, Script, Selinux, System};
pub use self::taint::{Taint, TaintEffect};
pub use crate::keywords::Keyword;
pub use crate::yaml::{Problem, ProblemKind, Problems};

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
    /// For whom the cluster's authorities are sealed, beside whoever creates it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<Operator>,
    /// What the API server keeps its objects in.
    pub etcd: Etcd,
    /// What runs containers.
    pub runtime: Runtime,
    /// Pod network.
    pub network: Network,
    /// Load balancer in front of the control planes.
    pub load_balancer: LoadBalancer,
    /// Where images come from inside the gap.
    pub registry: Registry,
    /// What runs in the cluster beyond its own, in the order in which it is put there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addons: Vec<Addon>,
    /// What makes volumes.
    #[serde(skip_serializing_if = "Storage::is_none")]
    pub storage: Storage,
    /// What goes into the bundle beyond what the cluster needs.
    pub bundle: Bundle,
}

impl Cluster {
    /// The defaults of the format, without hosts.
    pub fn named(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            kubernetes: Some(Kubernetes::named(&name)),
            name,
            hosts: Vec::new(),
            role_groups: RoleGroups::default(),
            system: System::default(),
            extra: Extra::default(),
            operators: Vec::new(),
            etcd: Etcd::default(),
            runtime: Runtime::default(),
            network: Network::default(),
            load_balancer: LoadBalancer::default(),
            registry: Registry::default(),
            addons: Vec::new(),
            storage: Storage::default(),
            bundle: Bundle::default(),
        }
    }

    /// The first control plane, the host that runs `kubeadm init`.
    pub fn first_control_plane(&self) -> Option<&Host> {
        self.role_groups.control_plane.first().and_then(|name| self.host(name))
    }

    /// The hosts that serve the depot and the registry: those of the registry role, each with all of the content; else the
    /// first control plane.
    pub fn registry_hosts(&self) -> Vec<&Host> {
        let wanted = &self.role_groups.registry;
        let named: Vec<&Host> = match wanted.len() {
            0 | 1 => wanted.iter().filter_map(|name| self.host(name)).collect(),
            // Each looked for among all hosts is hours where there are tens of thousands of both.
            _ => {
                let by_name: HashMap<&str, &Host> = self.hosts.iter().rev().map(|h| (h.name.as_str(), h)).collect();
                wanted.iter().filter_map(|name| by_name.get(name.as_str()).copied()).collect()
            }
        };
        if named.is_empty() { self.first_control_plane().into_iter().collect() } else { named }
    }

    /// The name that the control plane is reached by inside the cluster.
    pub fn control_plane_name(&self) -> String {
        self.load_balancer.domain.clone().unwrap_or_else(|| crate::names::control_plane_name(&self.name))
    }

    /// The TCP port beside that name.
    pub const fn control_plane_port(&self) -> u16 {
        self.load_balancer.mode.port()
    }

    /// A host by its name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|h| h.name == name)
    }
}
