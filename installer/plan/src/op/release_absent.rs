//! A release that cluster.yaml no longer has.

use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use super::helm_release::{FoundRelease, HELM};
use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// No release of kubexm's of this name, uninstalled by helm. One of somebody else is left as it is, and so are volumes, claims,
/// definitions of which there are objects, and namespaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseAbsent {
    /// Of the release.
    pub name: String,
    /// Of the release; it stays.
    pub namespace: String,
    /// How long helm waits for the objects to go, in seconds.
    pub wait_s: u64,
}

/// The state of a release that is to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FoundToRemove {
    /// There is no cluster, or it does not answer.
    Unknown,
    /// There is no release of this name in the namespace.
    Absent,
    /// There is one that kubexm did not install.
    Foreign,
    /// There is one of kubexm's.
    There {
        /// Its last revision.
        release: FoundRelease,
        /// helm's Secrets with its revisions: digest of a JSON list in the node's ledger.
        history: Digest,
    },
}

impl OpKind for ReleaseAbsent {
    type State = FoundToRemove;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let release = Resource::Release { namespace: self.namespace.clone(), name: self.name.clone() };
        vec![ResourceChange::sets(release, "absent")]
    }

    fn needs(&self) -> Needs<'_> {
        let resources = vec![Resource::Path(HELM.to_owned()), Resource::AdminConf, Resource::Api];
        Needs { resources, ..Needs::nothing() }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for ReleaseAbsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no release {}/{}", self.namespace, self.name)
    }
}

impl State for FoundToRemove {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    /// A rollback makes a new revision with the objects and values of the last one.
    fn is_back(&self, then: &Self) -> Option<bool> {
        match (self, then) {
            (Self::There { release: now, .. }, Self::There { release: then, .. }) => {
                Some((&now.objects, &now.values, &now.status) == (&then.objects, &then.values, &then.status))
            }
            (now, then) => Some(now == then),
        }
    }
}
