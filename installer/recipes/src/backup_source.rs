//! A verified backup that a cluster is made from, as far as a recipe needs it.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::ClusterId;
use kubexm_plan::backup::{Archive, BackedUpCluster, FromBackup};
use kubexm_plan::kubeadm_certificates::AUTHORITIES;

use crate::error::RecipeError;
use crate::paths;

/// A verified backup, as far as a recipe needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSource {
    /// `metadata.name` of its cluster.
    pub cluster: String,
    /// Becomes the new cluster's.
    pub cluster_id: ClusterId,
    /// In seconds of Unix time.
    pub created: i64,
    /// The encrypted archive.
    pub archive: Archive,
    /// Size of the snapshot in it, in bytes.
    pub snapshot: u64,
    /// Now, in seconds of Unix time.
    pub now: i64,
    /// The cluster as it was; none in a backup of a program that did not record it.
    pub had: Option<BackedUpCluster>,
    /// Texts of files in the archive, by their paths on the host; none of them is secret.
    pub texts: BTreeMap<String, String>,
    /// Paths of keys in the archive. Their values come as slots.
    pub keys: BTreeSet<String>,
}

/// Certificates of authorities and the public key of service accounts, each with its key.
pub const PAIRS: [(&str, &str); 4] = [
    (AUTHORITIES[0], "/etc/kubernetes/pki/ca.key"),
    (AUTHORITIES[1], "/etc/kubernetes/pki/etcd/ca.key"),
    (AUTHORITIES[2], "/etc/kubernetes/pki/front-proxy-ca.key"),
    ("/etc/kubernetes/pki/sa.pub", "/etc/kubernetes/pki/sa.key"),
];

/// Other files that are read in an archive: what the cluster of the backup was made with.
pub const READ: [&str; 3] = [KUBEADM, API_SERVER, CONTROLLER_MANAGER];

/// Only on the control plane that the cluster was made on.
pub(crate) const KUBEADM: &str = paths::KUBEADM_CONFIG;
pub(crate) const API_SERVER: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";
pub(crate) const CONTROLLER_MANAGER: &str = "/etc/kubernetes/manifests/kube-controller-manager.yaml";

/// What every host keeps of it.
pub(crate) fn mark_of(source: &BackupSource) -> Result<String, RecipeError> {
    let mark = FromBackup { cluster_id: source.cluster_id, archive: source.archive.sha256 };
    let text = serde_json::to_string(&mark);
    text.map(|text| text + "\n")
        .map_err(|error| RecipeError::Document { name: "from-backup.json", reason: error.to_string() })
}

impl BackupSource {
    /// The text of a file in the archive.
    pub(crate) fn text(&self, path: &str) -> Result<&str, RecipeError> {
        self.texts
            .get(path)
            .map(String::as_str)
            .ok_or_else(|| RecipeError::CannotUseBackup { problems: vec![missing(path)] })
    }
}

pub(crate) fn missing(path: &str) -> String {
    format!("the backup has no {path}, without which its cluster cannot be made again; use another backup")
}
