//! etcd's data from a backup, on one member. Each phase is done on all members before the next one begins.

use std::fmt;

use kubexm_spec::Digest;
use kubexm_spec::cluster::RuntimeKind;
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};
use crate::slot::SlotName;

/// A phase of a restore has been done on this member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdRestored {
    /// Of the restore: another restore of the same backup has another one.
    pub id: String,
    /// Which runtime has the containers of the member and its API server.
    pub runtime: RuntimeKind,
    /// Which phase.
    pub phase: RestorePhase,
}

/// What is done on a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum RestorePhase {
    /// The API server and etcd are stopped: their manifests are moved out of kubelet's folder.
    Stopped,
    /// The member's data is that of the snapshot; what was there is moved aside within etcd's folder.
    Data {
        /// Blob of the node's store: the encrypted archive.
        archive: Digest,
        /// The slot with its key.
        slots: Vec<SlotName>,
        /// Of the member.
        name: String,
        /// `https://10.0.0.1:2380`.
        peer: String,
        /// Every member: `n1=https://10.0.0.1:2380,…`.
        initial_cluster: String,
    },
    /// The manifests are back.
    Started,
}

/// The mark of the phase, and whether what it is about was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestoreState {
    /// The file that says that the phase is done.
    pub mark: PathState,
}

impl RestorePhase {
    /// A word for it, in the name of its mark.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Data { .. } => "data",
            Self::Started => "started",
        }
    }
}

impl EtcdRestored {
    /// The file that says that the phase is done.
    pub fn mark(&self) -> String {
        format!("/var/lib/kubexm/acts/restore-{}-{}", self.id, self.phase.word())
    }
}

impl OpKind for EtcdRestored {
    type State = RestoreState;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::file(self.mark(), "file 0600 done"), ResourceChange::unknown(Resource::ControlPlane)]
    }

    fn needs(&self) -> Needs<'_> {
        match &self.phase {
            RestorePhase::Data { archive, slots, .. } => Needs { slots, blobs: vec![*archive], ..Needs::nothing() },
            RestorePhase::Stopped => Needs { resources: vec![Resource::Runtime], ..Needs::nothing() },
            RestorePhase::Started => Needs::nothing(),
        }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::End
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for EtcdRestored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.phase {
            RestorePhase::Stopped => f.write_str("API server and etcd stopped, for a restore"),
            RestorePhase::Data { archive, name, .. } => write!(f, "data of etcd member {name} from archive {archive}"),
            RestorePhase::Started => f.write_str("API server and etcd started again, after a restore"),
        }
    }
}

impl State for RestoreState {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        vec![&self.mark]
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
