//! `kubeadm init`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::ActKind;
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
