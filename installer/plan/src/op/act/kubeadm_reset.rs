//! `kubeadm reset`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::ActKind;
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

    fn effect(&self) -> Effect<'_> {
        Effect::ResetsNode
    }
}

impl fmt::Display for KubeadmReset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("act kubeadm reset")
    }
}
