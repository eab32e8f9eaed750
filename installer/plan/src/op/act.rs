//! The reviewed list of actions.

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::SlotName;

/// The reviewed list of imperative actions. Each knows how to see that it has happened and how to clear what a
/// kill in the middle leaves; on a real machine each runs as a transient systemd unit that a resume attaches to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Act {
    /// `kubeadm init --config`. Done: admin.conf is there and the API server answers it. Partial: `kubeadm reset`.
    KubeadmInit {
        /// Absolute path of kubeadm's config.
        config: String,
        /// `unix:///run/containerd/containerd.sock`.
        cri_socket: String,
        /// Preflight checks of kubeadm that the support matrix says to ignore.
        ignore: Vec<String>,
    },
    /// `kubeadm join --config`. Done: kubelet.conf is there, kubelet runs, and on a control plane its static pods and
    /// admin.conf answer. Partial: `kubeadm reset`. The config is a secret while it lives: it is written below /run
    /// for the call, and removed.
    KubeadmJoin {
        /// kubeadm's JoinConfiguration, a text of the plan, with [`Act::placeholder`]s for the slots.
        config: Digest,
        /// Slots whose values go into the text.
        slots: Vec<SlotName>,
        /// `unix:///run/containerd/containerd.sock`.
        cri_socket: String,
        /// Joins as a control plane, with a stacked etcd member.
        control_plane: bool,
        /// Preflight checks of kubeadm that the support matrix says to ignore.
        ignore: Vec<String>,
    },
    /// A node's object is awaited, on a control plane and before the node joins: what is seen here tells whether the way
    /// back, [`Act::NodeDelete`], may delete it. Done: there is such a node, or it was just seen that there is none.
    NodeAwaited {
        /// Node name.
        node: String,
    },
    /// The node's object is deleted, asked of the API from a control plane. Done: there is no such node, or no API
    /// server any more on this host.
    NodeDelete {
        /// Node name.
        node: String,
    },
    /// `kubeadm reset --force`: the way back of init and join. Done: no /etc/kubernetes/*.conf, no static pods.
    KubeadmReset {
        /// `unix:///run/containerd/containerd.sock`.
        cri_socket: String,
    },
}

impl Act {
    /// What stands in a text for a slot's value.
    pub fn placeholder(slot: &SlotName) -> String {
        format!("{{{{slot:{}}}}}", slot.0)
    }
}
