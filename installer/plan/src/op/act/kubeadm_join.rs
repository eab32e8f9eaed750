//! `kubeadm join`.

use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::ActKind;
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};
use crate::slot::SlotName;

/// `kubeadm join --config`. Done: kubelet.conf exists, kubelet runs, and on a control plane its static pods and
/// admin.conf work. Half done: undone by `kubeadm reset`. The config contains secrets: it is written below /run for the
/// call and removed afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeadmJoin {
    /// kubeadm's JoinConfiguration, a text of the plan, with [`SlotName::placeholder`]s for the slots.
    pub config: Digest,
    /// Slots whose values go into the text.
    pub slots: Vec<SlotName>,
    /// `unix:///run/containerd/containerd.sock`.
    pub cri_socket: String,
    /// Joins as a control plane.
    pub control_plane: bool,
    /// etcd is not kubeadm's: a control plane gets no member.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external_etcd: bool,
    /// Preflight checks of kubeadm to ignore, from the support matrix.
    pub ignore: Vec<String>,
}

impl ActKind for KubeadmJoin {
    fn title(&self) -> &'static str {
        if self.control_plane { "kubeadm join, control plane" } else { "kubeadm join, worker" }
    }

    /// Touches this host only: `kubeadm` changes no other host, and the order of joins takes care of etcd's members.
    fn resource_changes(&self) -> Vec<ResourceChange> {
        let plane = self.control_plane.then(|| ResourceChange::unknown(Resource::ControlPlane));
        std::iter::once(ResourceChange::unknown(Resource::Kubeadm)).chain(plane).collect()
    }

    fn needs(&self) -> Needs<'_> {
        let resources = vec![Resource::Api, Resource::Runtime];
        Needs { slots: &self.slots, text: Some(self.config), resources, ..Needs::nothing() }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::JoinsNode { control_plane: self.control_plane, slots: &self.slots }
    }
}

impl fmt::Display for KubeadmJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.control_plane { "control plane" } else { "worker" };
        write!(f, "act kubeadm join as {role} with text {}", self.config.short())
    }
}
