//! `kubeadm reset`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::{ActKind, Review};
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// `kubeadm reset --force`: the undo of init and join. Done: no /etc/kubernetes/*.conf, no static pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeadmReset {
    /// `unix:///run/containerd/containerd.sock`.
    pub cri_socket: String,
}

impl ActKind for KubeadmReset {
    fn title(&self) -> &'static str {
        "kubeadm reset"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::Kubeadm)]
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn review(&self) -> Review {
        Review {
            not_a_state: "Only kubeadm knows everything that this version of it creates.",
            done: "No kubeconfig, static pod, CA or etcd data is left (but for the data of a member of kubexm's own \
                  etcd), and no mark of ours.",
            half_done: "It is run again completely; each of its parts accepts that its work is done. An act that \
                  still runs is stopped first, and a member that is still in etcd's list is removed.",
            rollback: "It is itself a rollback. The next run starts with a new cluster, or joins the host again.",
        }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::ResetsNode
    }
}

impl fmt::Display for KubeadmReset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("act kubeadm reset")
    }
}
