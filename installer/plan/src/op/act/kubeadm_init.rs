//! `kubeadm init`.

use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::{ActKind, Review};
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};
use crate::slot::SlotName;

/// `kubeadm init --config`. Done: admin.conf exists and the API server accepts it. Half done: undone by `kubeadm
/// reset`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeadmInit {
    /// Absolute path of kubeadm's config.
    pub config: String,
    /// `unix:///run/containerd/containerd.sock`.
    pub cri_socket: String,
    /// Preflight checks of kubeadm to ignore, from the support matrix.
    pub ignore: Vec<String>,
    /// What etcd begins with, if the cluster is made from a backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<RestoredEtcd>,
}

/// The data of a backup, with which the first member of kubeadm's etcd begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestoredEtcd {
    /// Blob of the node's store: the encrypted archive.
    pub archive: Digest,
    /// The slot with its key.
    pub slots: Vec<SlotName>,
    /// In seconds of Unix time, when this was planned: revisions are raised by what follows from it.
    pub id: String,
    /// Name of the node, and of its member.
    pub node: String,
    /// `https://10.0.0.1:2380`.
    pub peer: String,
    /// The address that clients use and that another machine may have (`10.0.0.100:6443`), if there is one: right before the init nobody
    /// with a certificate of the backup's CA may answer there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

impl ActKind for KubeadmInit {
    fn title(&self) -> &'static str {
        "kubeadm init"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::Kubeadm), ResourceChange::unknown(Resource::ControlPlane)]
    }

    fn needs(&self) -> Needs<'_> {
        let (slots, blobs): (&[SlotName], _) = match &self.backup {
            Some(backup) => (&backup.slots, vec![backup.archive]),
            None => (&[], Vec::new()),
        };
        let resources = vec![Resource::Runtime, Resource::Path(self.config.clone())];
        Needs { resources, slots, blobs, ..Needs::nothing() }
    }

    fn review(&self) -> Review {
        Review {
            not_a_state: "It creates a CA, keys and an etcd that cannot be created a second time: run twice, it \
                  would make another cluster.",
            done: "Our mark says that it completed, and admin.conf and the three static pods exist; after a kill \
                  before the mark was written: the API server answers and has CoreDNS and kube-proxy, which kubeadm \
                  applies last. Or our mark says that this control plane joined: it is the first one since the one \
                  with the init was deleted.",
            half_done: "A unit that still runs is awaited. Otherwise `kubeadm reset`, removal of everything that \
                  appeared since the init started (files, CNI configs, network rules, mounts, pods), then a new \
                  init; what existed before according to our mark stays. With a backup each attempt restores etcd's data first, \
                  and the end is recorded only when the node objects of the earlier cluster are deleted.",
            rollback: "`kubeadm reset` on the host, in the first wave, while the container runtime still runs; only if nothing \
                  existed before, or only a half-done init of ours.",
        }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::InitialisesCluster { config: &self.config }
    }
}

impl fmt::Display for KubeadmInit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act kubeadm init with {}", self.config)?;
        if let Some(backup) = &self.backup {
            write!(f, ", with etcd's data from archive {}, without the nodes in it", backup.archive)?;
        }
        if self.ignore.is_empty() { Ok(()) } else { write!(f, ", ignoring {}", self.ignore.join(", ")) }
    }
}
