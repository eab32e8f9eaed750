//! A kubeconfig for a user of the node, copied from kubeadm's admin.conf.

use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// admin.conf for a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kubeconfig {
    /// A user of the node; `.kube/config` in their home is written and owned by them.
    pub user: String,
    /// Digest of an earlier admin.conf: only a copy of that one is replaced, and keeps its mode and owner. A file of the
    /// user's own is left alone, and nothing is written where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Digest>,
}

/// The user's kubeconfig, and whether it equals admin.conf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Copied {
    /// `.kube/config` of the user's home.
    pub file: PathState,
    /// Whether it equals admin.conf and belongs to the user, or is none of the copies that are replaced.
    pub settled: bool,
}

impl OpKind for Kubeconfig {
    type State = Copied;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::sets(Resource::Kubeconfig(self.user.clone()), "admin")]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { resources: vec![Resource::AdminConf], ..Needs::nothing() }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kubeconfig of {}", self.user)?;
        self.replaces.map_or(Ok(()), |was| write!(f, ", where it is a copy of {was}"))
    }
}

impl State for Copied {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        vec![&self.file]
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
