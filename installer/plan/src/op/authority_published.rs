//! The cluster's authority as the cluster itself publishes it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::kubeadm_certificates::CLUSTER_CA;
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// The certificate in [`CLUSTER_CA`] of this host is the one in the ConfigMap `cluster-info` of kube-public, from which nodes that join
/// get it, and in `kube-root-ca.crt` of kube-system, as controller managers write it into every namespace for its pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthorityPublished {}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Published {
    /// The certificate in `cluster-info`, as it stands there (base64); none if somebody has removed the object or the field.
    pub info: Option<String>,
    /// Whether both are the host's.
    pub settled: bool,
}

impl OpKind for AuthorityPublished {
    type State = Published;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::sets(Resource::PublishedAuthority, format!("what is in {CLUSTER_CA}"))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { resources: vec![Resource::AdminConf], ..Needs::nothing() }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for AuthorityPublished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{CLUSTER_CA} in the ConfigMaps cluster-info and kube-root-ca.crt")
    }
}

impl State for Published {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, then: &Self) -> Option<bool> {
        Some(self.info == then.info)
    }
}
