//! `kubeadm init`.

use std::fmt;

use serde::{Deserialize, Serialize};

use kubexm_spec::Digest;

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
    /// The backup whose cluster it becomes; none for a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<InitFrom>,
}

/// A backup whose cluster an init brings back: its authorities, and the data of etcd, of which this host has the only member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InitFrom {
    /// Blob of the node's store: the encrypted archive.
    pub archive: Digest,
    /// The slot with its key.
    pub slots: Vec<SlotName>,
    /// Of the member and of the node. Objects of all other nodes are deleted: their hosts are gone, or join again.
    pub name: String,
    /// `https://10.0.0.1:2380`.
    pub peer: String,
}

impl ActKind for KubeadmInit {
    fn title(&self) -> &'static str {
        "kubeadm init"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::Kubeadm), ResourceChange::unknown(Resource::ControlPlane)]
    }

    fn needs(&self) -> Needs<'_> {
        let resources = vec![Resource::Runtime, Resource::Path(self.config.clone())];
        match &self.from {
            Some(from) => Needs { resources, slots: &from.slots, blobs: vec![from.archive], ..Needs::nothing() },
            None => Needs { resources, ..Needs::nothing() },
        }
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
                  init (from the archive again, if it brings a backup's cluster back); what existed before according to our mark \
                  stays.",
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
        if let Some(from) = &self.from {
            write!(f, ", of the cluster in archive {}", from.archive)?;
        }
        if self.ignore.is_empty() { Ok(()) } else { write!(f, ", ignoring {}", self.ignore.join(", ")) }
    }
}
