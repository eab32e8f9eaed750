//! Root packages: what nodes need of their distribution, by role.

use kubexm_spec::Family;
use serde::{Deserialize, Serialize};

/// Something nodes need, whatever a distribution calls it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Root {
    /// What we call it: `conntrack`.
    pub name: String,
    /// Which nodes need it.
    pub role: RootRole,
    /// Programs that do what it is wanted for: a node that has all of them needs nothing. Empty where a program says too little.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Packages of Debian's family.
    pub deb: Vec<String>,
    /// Packages of Red Hat's family.
    pub rpm: Vec<String>,
}

/// Which nodes need a root package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RootRole {
    /// Every node of a cluster.
    Node,
    /// Nodes of clusters whose services go through IPVS.
    Ipvs,
    /// Nodes that mount NFS.
    Nfs,
    /// Nodes that mount iSCSI.
    Iscsi,
    /// Nodes whose time we keep.
    Time,
    /// Load balancer hosts with keepalived.
    Keepalived,
    /// Load balancer hosts with haproxy.
    Haproxy,
    /// Load balancer hosts with nginx.
    Nginx,
}

impl RootRole {
    /// Every role.
    pub const ALL: [Self; 8] =
        [Self::Node, Self::Ipvs, Self::Nfs, Self::Iscsi, Self::Time, Self::Keepalived, Self::Haproxy, Self::Nginx];
}

impl Root {
    /// What a family calls it, unless a profile says otherwise.
    pub fn names(&self, family: Family) -> &[String] {
        match family {
            Family::Deb => &self.deb,
            Family::Rpm => &self.rpm,
        }
    }
}
