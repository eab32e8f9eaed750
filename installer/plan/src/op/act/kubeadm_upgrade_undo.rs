//! Rolls back `kubeadm upgrade node` on a worker.

use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::{ActKind, Review};
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// Restores kubelet's configuration on a worker as it was before [`super::KubeadmUpgrade`]. Done: there is no mark of that
/// upgrade.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeadmUpgradeUndo {
    /// `v1.35.4`, the version of the upgrade.
    pub version: String,
    /// As the upgrade has them. The mark of an earlier upgrade to the same version is not this one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Digest>,
}

impl ActKind for KubeadmUpgradeUndo {
    fn title(&self) -> &'static str {
        "restore kubelet's configuration"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::State("/var/lib/kubelet/config.yaml".to_owned()))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn review(&self) -> Review {
        Review {
            not_a_state: "It is the rollback of `kubeadm upgrade node` on a worker.",
            done: "There is no mark of that version with those settings.",
            half_done: "It is run again completely: it writes files whose content is in the mark.",
            rollback: "It is itself a rollback. The next run upgrades the worker again.",
        }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::RestoresKubeletConfig
    }
}

impl fmt::Display for KubeadmUpgradeUndo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act restore kubelet's configuration from before {}", self.version)
    }
}
