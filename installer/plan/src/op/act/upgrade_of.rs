//! What an upgrade is of.

use serde::{Deserialize, Serialize};

/// What `kubeadm upgrade` does on a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum UpgradeOf {
    /// The first control plane, and what the cluster has once: `kubeadm upgrade apply`.
    Cluster {
        /// Absolute path of kubeadm's config, which becomes the cluster's first. None: the cluster keeps its own, as an adopted one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        config: Option<String>,
    },
    /// A further control plane.
    ControlPlane,
    /// A worker: kubelet's configuration only.
    Worker,
}

impl UpgradeOf {
    /// Whether the host is a control plane.
    pub const fn is_control_plane(&self) -> bool {
        matches!(self, Self::Cluster { .. } | Self::ControlPlane)
    }
}
