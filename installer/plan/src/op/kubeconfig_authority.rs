//! The authority that a kubeconfig of a host trusts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback};
use crate::kubeadm_certificates::CLUSTER_CA;
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// A kubeconfig trusts the certificate in [`CLUSTER_CA`] of its host (`certificate-authority-data`); everything else in it stays. For one
/// whose authority was renewed under the same key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeconfigAuthority {
    /// `/etc/kubernetes/kubelet.conf`.
    pub path: String,
}

impl OpKind for KubeconfigAuthority {
    type State = PathState;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::sets(Resource::TrustedBy(self.path.clone()), format!("what is in {CLUSTER_CA}"))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    /// They are kubeadm's, which removes them with the cluster.
    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for KubeconfigAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} trusts {CLUSTER_CA}", self.path)
    }
}
