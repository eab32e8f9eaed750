//! `spec.hosts` and `spec.roleGroups`: the machines, the ways in to them, and who does what.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Serialize;

use super::field::{HostName, OfEachFamily, OneOrTwo, OptionalPair, Port, Subdomain, User, section};
use super::parse::hosts::{Annotations, Labels};
use super::parse::login::Jumps;
use super::taint::{Taint, Taints};
use crate::Arch;
use crate::keywords::keywords;
use crate::yaml::Shape;

/// The roles, as `roles` of a host and the keys of `spec.roleGroups` write them.
pub(super) const ROLE_WORDS: &[&str] = &["etcd", "master", "control-plane", "worker", "loadbalancer", "registry"];

section! {
    /// A machine
    #[elsewhere("roles" as Shape::List(&Shape::Words(ROLE_WORDS)), "What it does, beside spec.roleGroups")]
    #[refused(
        "password" => "passwordFrom",
        "sudoPassword" => "sudoPasswordFrom",
        "privateKey" => "privateKeyPath"
    )]
    pub struct Host {
        /// Name of the node, a DNS name
        #[yaml("name" as Subdomain, required)]
        pub name: String,
        /// Where SSH reaches it: IP address or DNS name
        #[yaml("address" as OneOrTwo<HostName>, required)]
        #[others(more_addresses: Vec<String>)]
        pub address: String,
        /// IP address used inside the cluster, or one of each family; address when left out
        #[yaml("internalAddress" as OptionalPair<OfEachFamily<IpAddr>>)]
        #[others(more_internal_addresses: Vec<IpAddr>)]
        pub internal_address: Option<IpAddr>,
        /// SSH port
        #[yaml("port" as Port, default = 22)]
        pub port: u16,
        /// SSH user: root, or one who may use sudo
        #[yaml("user" as User, default = "root".to_owned())]
        pub user: String,
        /// Private key file on this machine
        #[yaml("privateKeyPath")]
        pub private_key_path: Option<PathBuf>,
        /// Where the SSH password comes from
        ///
        /// Where keys are not used, or not enough.
        #[yaml("passwordFrom")]
        pub password: Option<SecretSource>,
        /// Whether keys of your ssh-agent are used
        #[yaml("agent")]
        pub agent: bool,
        /// Where the password for sudo comes from
        #[yaml("sudoPasswordFrom")]
        pub sudo_password: Option<SecretSource>,
        /// Hosts on the way there, the nearest first; user@host:port is short for one
        #[yaml("via" as Jumps)]
        pub via: Vec<Jump>,
        /// Its architecture; found out when left out
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("arch")]
        pub arch: Option<Arch>,
        /// Labels of the node
        #[yaml("labels" as Labels)]
        pub labels: BTreeMap<String, String>,
        /// Annotations of the node
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        #[yaml("annotations" as Annotations)]
        pub annotations: BTreeMap<String, String>,
        /// Taints of the node, like dedicated=database:NoSchedule
        ///
        /// From the moment it joins. That of control planes follows from its roles.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("taints" as Taints)]
        pub taints: Vec<Taint>,
    }
}

/// Where a secret is read from when it is needed (`passwordFrom: {env: NAME}` or `{file: PATH}`). The secret itself
/// never is in cluster.yaml: that file travels in the bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SecretSource {
    /// An environment variable of the controller.
    Env(String),
    /// A file on the controller; one newline at its end is left out.
    File(PathBuf),
}

section! {
    /// A host on the way to another one
    ///
    /// `via`: SSH is forwarded through it (RFC 4254, direct-tcpip).
    #[refused("password" => "passwordFrom", "privateKey" => "privateKeyPath")]
    pub struct Jump {
        /// IP address or DNS name
        #[yaml("address" as HostName, required)]
        pub address: String,
        /// SSH port
        #[yaml("port" as Port, default = 22)]
        pub port: u16,
        /// SSH user; it needs no sudo there
        #[yaml("user" as User, default = "root".to_owned())]
        pub user: String,
        /// Private key file on this machine; the host's own when left out
        #[yaml("privateKeyPath")]
        pub private_key_path: Option<PathBuf>,
        /// Where the password comes from
        #[yaml("passwordFrom")]
        pub password: Option<SecretSource>,
        /// Whether keys of your ssh-agent are used
        #[yaml("agent")]
        pub agent: bool,
    }
}

/// Names of hosts by role, ranges (`node[1:3]`) already written out, `hosts[].roles` already added.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleGroups {
    /// etcd members: the same as `control_plane` with etcd type `kubeadm`, empty with `external`.
    pub etcd: Vec<String>,
    /// `master` (alias `control-plane`) in the file.
    pub control_plane: Vec<String>,
    /// Workers. A control plane that is also a worker is left untainted.
    pub worker: Vec<String>,
    /// Hosts of keepalived with haproxy or nginx; empty with the other load balancers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub load_balancer: Vec<String>,
    /// Registry hosts; the first control plane when not given.
    pub registry: Vec<String>,
}

keywords! {
    /// A group of `spec.roleGroups`.
    pub enum Role {
        /// Members of etcd.
        Etcd = "etcd",
        /// Control planes; `control-plane` is read, too.
        ControlPlane = "master",
        /// Workers.
        Worker = "worker",
        /// Hosts of keepalived.
        LoadBalancer = "loadbalancer",
        /// Registry hosts.
        Registry = "registry",
    }
}

impl RoleGroups {
    /// The hosts of a role.
    pub const fn of(&self, role: Role) -> &Vec<String> {
        match role {
            Role::Etcd => &self.etcd,
            Role::ControlPlane => &self.control_plane,
            Role::Worker => &self.worker,
            Role::LoadBalancer => &self.load_balancer,
            Role::Registry => &self.registry,
        }
    }
}

impl Host {
    /// A host with nothing but a name and an address, everything else as the format has it by default.
    pub fn new(name: impl Into<String>, address: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            address: address.into(),
            more_addresses: Vec::new(),
            internal_address: None,
            more_internal_addresses: Vec::new(),
            port: 22,
            user: "root".to_owned(),
            private_key_path: None,
            password: None,
            agent: false,
            sudo_password: None,
            via: Vec::new(),
            arch: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
        }
    }

    /// The address used inside the cluster, when it is known without asking DNS.
    pub fn node_ip(&self) -> Option<IpAddr> {
        self.internal_address.or_else(|| self.address.parse().ok())
    }

    /// The address of the other family inside the cluster, where cluster.yaml names one.
    pub fn second_node_ip(&self) -> Option<IpAddr> {
        self.more_internal_addresses.first().copied()
    }

    /// Every address of the machine that is known without asking DNS, the cluster's first.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let written = std::iter::once(&self.address).chain(&self.more_addresses).filter_map(|text| text.parse().ok());
        self.internal_address.into_iter().chain(self.more_internal_addresses.iter().copied()).chain(written)
    }
}
