//! Packages of operating systems in a lock: what they were chosen for, and from which indexes. (Each package is an
//! item.)

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Digest, Platform};

/// The packages of one operating system for one platform: their items are those of the lock whose key has this `os` and whose
/// platform this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackageSet {
    /// `debian-12`, as the catalogue calls it.
    pub os: String,
    /// Platform of the machines.
    pub platform: Platform,
    /// What it was solved for: in the order of the catalogue's table, then the user's own.
    pub roots: Vec<PackageRoot>,
    /// What it was solved from.
    pub indexes: Vec<PackageIndex>,
    /// Seconds of Unix time: of the newest index that says when it was made. Metadata made of the set is dated by it.
    pub date: i64,
    /// Package name -> why it is there, for people: "wanted by conntrack", "socat Depends libwrap0 (>= 7.6-4~)".
    pub because: BTreeMap<String, String>,
}

/// Something that nodes need of their distribution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackageRoot {
    /// `conntrack`: as the table of roots calls it; of the user's own: the package's name.
    pub name: String,
    /// Which nodes need it; the user's own: every node.
    pub role: PackageRole,
    /// Programs that do what it is wanted for: a node that has all of them needs nothing. Empty where a program says too little,
    /// and for the user's own.
    pub commands: Vec<String>,
    /// Names of packages in this operating system.
    pub packages: Vec<String>,
    /// Packages that it takes the place of (chrony: systemd-timesyncd): carried too and never installed, so that there is a
    /// rollback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<String>,
}

/// An index that packages were chosen from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackageIndex {
    /// Name of the repository in the profile: `main`, `security`.
    pub repository: String,
    /// Its own address, before any zone rewrites it.
    pub address: String,
    /// Digest of its bytes as served.
    pub digest: Digest,
    /// Its stated time of creation, in seconds of Unix time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<i64>,
    /// A key of the distribution has signed it, or what lists it.
    pub signed: bool,
    /// Nobody has signed it and it came over plain http, with the user's consent: anybody on that network could have chosen the
    /// packages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trust_unsigned: bool,
}

/// Which nodes need a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageRole {
    /// Every node of a cluster.
    Node,
    /// Nodes whose container runtime comes as packages.
    Runtime,
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

impl PackageRole {
    /// Every role.
    pub const ALL: [Self; 9] = [
        Self::Node,
        Self::Runtime,
        Self::Ipvs,
        Self::Nfs,
        Self::Iscsi,
        Self::Time,
        Self::Keepalived,
        Self::Haproxy,
        Self::Nginx,
    ];

    /// As it is written: `node`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Runtime => "runtime",
            Self::Ipvs => "ipvs",
            Self::Nfs => "nfs",
            Self::Iscsi => "iscsi",
            Self::Time => "time",
            Self::Keepalived => "keepalived",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
        }
    }
}
