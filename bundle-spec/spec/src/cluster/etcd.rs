//! `spec.etcd`.

use std::path::PathBuf;

use serde::Serialize;

use crate::keywords::keywords;

/// `spec.etcd`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Etcd {
    /// Who runs it.
    #[serde(rename = "type")]
    pub kind: EtcdKind,
    /// How an etcd of the user's is reached; with type `external` and no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalEtcd>,
    /// Folder of its data on the members.
    pub data_dir: String,
    /// Bytes that the database may have (`--quota-backend-bytes`); etcd's own default (2 GiB) when none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<u64>,
    /// etcd's own defaults where none.
    pub snapshots: Snapshots,
    /// Backups on the members; none without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,
}

keywords! {
    /// `spec.etcd.type`.
    pub enum EtcdKind {
        /// A static pod on every control plane.
        Kubeadm = "kubeadm",
        /// A binary under systemd on the hosts of the role etcd.
        Kubexm = "kubexm",
        /// The user's own.
        External = "external",
    }
}

/// `spec.etcd.externalConfig`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalEtcd {
    /// `https://10.0.0.5:2379`, one for each member.
    pub endpoints: Vec<String>,
    /// On the controller: the CA of the members' certificates; with `https` only.
    pub ca_file: Option<PathBuf>,
    /// On the controller: the API server's client certificate.
    pub cert_file: Option<PathBuf>,
    /// On the controller: its key.
    pub key_file: Option<PathBuf>,
}

/// `spec.etcd.snapshots`: etcd's own, from which it starts and by which a slow member catches up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshots {
    /// Changes after which one is made (`--snapshot-count`).
    pub count: Option<u32>,
    /// How many are kept (`--max-snapshots`).
    pub keep: Option<u32>,
}

/// `spec.etcd.backup`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// When: a calendar expression of systemd (systemd.time(7)).
    pub schedule: String,
    /// Folder on the members.
    pub dir: String,
    /// How many are kept.
    pub keep: u32,
}

impl Default for Etcd {
    fn default() -> Self {
        Self {
            kind: EtcdKind::default(),
            external: None,
            data_dir: "/var/lib/etcd".to_owned(),
            quota: None,
            snapshots: Snapshots::default(),
            backup: None,
        }
    }
}

impl Default for Backup {
    fn default() -> Self {
        Self { schedule: "daily".to_owned(), dir: "/var/backups/etcd".to_owned(), keep: 6 }
    }
}
