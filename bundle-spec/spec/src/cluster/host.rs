//! `spec.hosts` and `spec.roleGroups`: the machines, the ways in to them, and who does what.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Serialize;

use crate::Arch;

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    /// Node name, DNS-1123.
    pub name: String,
    /// Where SSH reaches it: IP address or DNS name.
    pub address: String,
    /// Further addresses of the same machine, where the file has a list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more_addresses: Vec<String>,
    /// Address used inside the cluster; `address` when not given.
    pub internal_address: Option<IpAddr>,
    /// The address of the other family, for dual-stack.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more_internal_addresses: Vec<IpAddr>,
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
    /// The declared architecture; detected when none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<Arch>,
    /// Node labels.
    pub labels: BTreeMap<String, String>,
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
        }
    }

    /// The address used inside the cluster, when it is known without asking DNS.
    pub fn node_ip(&self) -> Option<IpAddr> {
        self.internal_address.or_else(|| self.address.parse().ok())
    }

    /// Every address of the machine that is known without asking DNS, the cluster's first.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let written = std::iter::once(&self.address).chain(&self.more_addresses).filter_map(|text| text.parse().ok());
        self.internal_address.into_iter().chain(self.more_internal_addresses.iter().copied()).chain(written)
    }
}
