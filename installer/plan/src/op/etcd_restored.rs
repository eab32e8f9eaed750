//! etcd's data from a backup, on one member. Each phase is done on all members before the next one begins.

use std::fmt;

use kubexm_spec::Digest;
use kubexm_spec::cluster::RuntimeKind;
use serde::{Deserialize, Serialize};

use crate::etcd;
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
    /// What runs on the host.
    #[serde(default, skip_serializing_if = "RestoredHost::is_stacked")]
    pub on: RestoredHost,
    /// Which phase.
    pub phase: RestorePhase,
}

/// What a restore stops and starts on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RestoredHost {
    /// An API server with kubeadm's own member of etcd: static pods, both.
    #[default]
    Stacked,
    /// An API server; the members of kubexm's own etcd are elsewhere.
    ApiServer,
    /// A member of kubexm's own etcd.
    Member,
    /// Both.
    ApiServerAndMember,
}

impl RestoredHost {
    /// kubeadm's etcd.
    pub const fn is_stacked(&self) -> bool {
        matches!(self, Self::Stacked)
    }

    /// An API server runs there.
    pub const fn has_api_server(self) -> bool {
        !matches!(self, Self::Member)
    }

    /// A member of kubexm's own etcd runs there.
    pub const fn has_own_member(self) -> bool {
        matches!(self, Self::Member | Self::ApiServerAndMember)
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Stacked | Self::ApiServerAndMember => "API server and etcd",
            Self::ApiServer => "API server",
            Self::Member => "etcd",
        }
    }
}

/// What is done on a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum RestorePhase {
    /// The API server and etcd are stopped: the manifests of static pods are moved out of kubelet's folder, and a unit of kubexm's is not
    /// started at a boot.
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
    /// They run again.
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
        let api_server = self.on.has_api_server().then(|| ResourceChange::unknown(Resource::ControlPlane));
        let member = self.on.has_own_member().then(|| ResourceChange::unknown(Resource::Unit(etcd::UNIT.to_owned())));
        let mark = ResourceChange::file(self.mark(), "file 0600 done");
        [mark].into_iter().chain(api_server).chain(member).collect()
    }

    fn needs(&self) -> Needs<'_> {
        match &self.phase {
            RestorePhase::Data { archive, slots, .. } => Needs { slots, blobs: vec![*archive], ..Needs::nothing() },
            RestorePhase::Stopped if self.on.has_api_server() => {
                Needs { resources: vec![Resource::Runtime], ..Needs::nothing() }
            }
            RestorePhase::Stopped => Needs::nothing(),
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
            RestorePhase::Stopped => write!(f, "{} stopped, for a restore", self.on.title()),
            RestorePhase::Data { archive, name, .. } => write!(f, "data of etcd member {name} from archive {archive}"),
            RestorePhase::Started => write!(f, "{} started again, after a restore", self.on.title()),
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
