//! `kubeadm init`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::{ActKind, Review};
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

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
}

impl ActKind for KubeadmInit {
    fn title(&self) -> &'static str {
        "kubeadm init"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::Kubeadm), ResourceChange::unknown(Resource::ControlPlane)]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { resources: vec![Resource::Runtime, Resource::Path(self.config.clone())], ..Needs::nothing() }
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
                  init; what existed before according to our mark stays.",
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
        if self.ignore.is_empty() { Ok(()) } else { write!(f, ", ignoring {}", self.ignore.join(", ")) }
    }
}
