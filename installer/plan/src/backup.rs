//! What the controller asks a control plane for when it makes a backup, and what that answers.

use std::net::IpAddr;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cluster_facts::NodeFacts;
use crate::{ClusterFacts, ClusterId};

/// The file by which a host knows that its cluster is made from a backup: [`FromBackup`] as JSON. It is written before the stamp, and
/// stays: without it another `create` would begin an empty cluster with the id of the backup's.
pub const FROM_BACKUP: &str = "/var/lib/kubexm/from-backup.json";

/// From which backup a cluster is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FromBackup {
    /// The cluster's id, and that of the cluster in the backup.
    pub cluster_id: ClusterId,
    /// Digest of the encrypted archive.
    pub archive: Digest,
}

/// The cluster as it was when it was backed up: what is shown of the backup, and compared when a cluster is made from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackedUpCluster {
    /// Its node objects, sorted by name.
    pub nodes: Vec<BackedUpNode>,
    /// Names of the members of its etcd.
    pub members: Vec<String>,
    /// The plugin whose CNI configuration the control plane had, `flannel`; none if it is of no known plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// `spec.network` and, of each add-on, its name, type and namespace, as they were applied; none if that was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Value>,
}

/// A node of a cluster that was backed up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackedUpNode {
    /// Name of the node object.
    pub name: String,
    /// Its addresses of type InternalIP.
    pub addresses: Vec<String>,
    /// Whether it was a control plane.
    pub control_plane: bool,
}

/// The most that are recorded of a node: two families, twice.
const ADDRESSES: usize = 4;

impl BackedUpCluster {
    /// Of a cluster that runs.
    pub fn of(running: &ClusterFacts) -> Self {
        // A node says its addresses itself: what is none, and more than any has, would make the header longer than one that is read.
        let is_address = |text: &&String| text.parse::<IpAddr>().is_ok();
        let node = |node: &NodeFacts| BackedUpNode {
            name: node.name.clone(),
            addresses: node.addresses.iter().filter(is_address).take(ADDRESSES).cloned().collect(),
            control_plane: node.roles.iter().any(|role| role == "control-plane"),
        };
        Self {
            nodes: running.nodes.iter().map(node).collect(),
            members: running.etcd.iter().map(|member| member.name.clone()).collect(),
            network: running.network.clone(),
            applied: running.applied.as_ref().map(|applied| compared(&applied.cluster)),
        }
    }
}

/// The parts of a recorded cluster.yaml that are compared: the whole may be longer than the header of a backup.
fn compared(cluster: &Value) -> Value {
    let addons = cluster.pointer("/spec/addons").and_then(Value::as_array).into_iter().flatten();
    let addons: Vec<Value> = addons
        .map(|addon| json!({"name": addon["name"], "type": addon["type"], "namespace": addon["namespace"]}))
        .map(without_nulls)
        .collect();
    let network = cluster.pointer("/spec/network").cloned().unwrap_or_else(|| json!({}));
    json!({"spec": {"network": network, "addons": addons}})
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        other => other,
    }
}

/// How many bytes of an archive one answer has at most.
pub const CHUNK: u64 = 1 << 20;

/// A request. Files are named by the backup's own name, and are nowhere but in [`crate::op::SNAPSHOTS`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "backup", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum BackupAsk {
    /// Takes a snapshot of etcd, verifies it, and writes it with PKI and configuration into an archive.
    Make {
        /// Letters, digits, dashes and dots.
        name: String,
        /// Public key (age) that the archive is encrypted for.
        recipient: String,
    },
    /// Reads the archive.
    Read {
        /// As in `Make`.
        name: String,
        /// Offset in bytes.
        offset: u64,
    },
    /// Deletes the archive.
    Forget {
        /// As in `Make`.
        name: String,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupAnswer {
    /// To `Make`.
    Made {
        /// The archive.
        archive: Archive,
        /// The snapshot in it.
        etcd: SnapshotFacts,
    },
    /// To `Read`: up to [`CHUNK`] bytes, none at the end.
    Bytes {
        /// Encrypted.
        bytes: Vec<u8>,
    },
    /// To `Forget`.
    Forgotten,
}

/// An encrypted archive (age, tar).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Archive {
    /// Of its bytes.
    pub sha256: Digest,
    /// In bytes.
    pub size: u64,
}

/// What is in a snapshot of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SnapshotFacts {
    /// Revision of etcd's data.
    pub revision: i64,
    /// Number of keys.
    pub keys: u64,
    /// Size of the snapshot in bytes.
    pub size: u64,
}

/// Name of the snapshot in an archive.
pub const SNAPSHOT_MEMBER: &str = "etcd.db";

/// Whether a name can be one of a file, and of no other folder's.
pub fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    !name.is_empty() && name.len() <= 128 && name.chars().all(plain) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_was_applied_a_backup_names_the_network_and_the_add_ons_alone() {
        let applied = json!({"spec": {"network": {"plugin": "calico"}, "hosts": [{"name": "n1"}], "addons": [
            {"name": "web", "type": "helm", "namespace": "apps", "values": {"replicas": 2}}, {"name": "site", "type": "yaml"},
        ]}});
        let addons = json!([{"name": "web", "type": "helm", "namespace": "apps"}, {"name": "site", "type": "yaml"}]);
        assert_eq!(compared(&applied), json!({"spec": {"network": {"plugin": "calico"}, "addons": addons}}));
    }

    #[test]
    fn a_node_that_says_it_has_thousands_of_addresses_has_four() {
        let addresses: Vec<String> = (0..20_000).map(|at| format!("2001:db8::{:x}:{:x}", at >> 8, at & 255)).collect();
        let texts = ["an address", ""].map(str::to_owned);
        let node =
            NodeFacts { addresses: texts.into_iter().chain(addresses.clone()).collect(), ..NodeFacts::default() };
        let had = BackedUpCluster::of(&ClusterFacts { nodes: vec![node], ..ClusterFacts::default() });
        assert_eq!(had.nodes[0].addresses, addresses[..4]);
    }

    #[test]
    fn a_name_leads_to_no_other_folder() {
        assert!(is_plain("demo-20260101T000000Z"));
        for name in ["", ".x", "..", "a/b", "/etc/passwd", "a b", "a\0b", &"x".repeat(129)] {
            assert!(!is_plain(name), "{name:?}");
        }
    }
}
