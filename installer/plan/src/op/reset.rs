//! What `reset` does on a host: the parts of removing a cluster that no other op covers.
//!
//! Everything except [`Reset::Purge`] can be rolled back so that the cluster runs again: data is renamed, not deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::kind::{AnyOp, Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::observed_state::ObservedState;
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// Name of the folder that receives what is moved aside: `/var/lib/.kubexm-reset-etcd`, or
/// `/var/lib/etcd/.kubexm-reset` if the folder is a mount point.
pub const ASIDE: &str = ".kubexm-reset";

/// One part of a reset, over any op `O` ([`crate::Op`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reset", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Reset<O> {
    /// No act of kubexm, no process of a pod and no control group of a pod is left. kubelet must not run; since an act
    /// that was stopped may have started it, it is stopped again after that.
    PodsStopped,
    /// The content of these folders is moved aside: mounts below are unmounted (never by force), and the folder is
    /// renamed; of one that is a mount point or a link, the content is renamed inside it.
    #[serde(rename = "setAside")]
    MoveStateAside {
        /// Absolute.
        paths: Vec<String>,
        /// Those that existed before kubexm: they are kept, with the listed entries in them.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        spared: BTreeMap<String, Vec<String>>,
        /// Folders whose earlier content [`super::MoveAside`] moved. Once that is back, they contain nothing of the
        /// cluster, and a resumed reset leaves them alone.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        moved: BTreeSet<String>,
    },
    /// No link, rule, set or namespace of a cluster is left in the host's network.
    NetworkCleared,
    /// These ops are rolled back to the state that they found.
    Reverted {
        /// The newest first: the order in which they are rolled back.
        ops: Vec<O>,
        /// What each found before its first change, in the same order.
        before: Vec<ObservedState>,
    },
    /// What was moved aside is deleted, with the ledger, the store, the stamp, kubexm's logs and the agent's program.
    #[serde(rename = "forgotten")]
    Purge {
        /// Folders whose moved content is deleted.
        paths: Vec<String>,
        /// Parent folders that were created for those (`/opt`), the deepest first: removed if they are empty.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parents: Vec<String>,
    },
}

/// The observed state of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Traces {
    /// What is left, as text for people.
    Left {
        /// Empty if nothing is left.
        what: Vec<String>,
    },
    /// The folders.
    Folders {
        /// In the op's order.
        folders: Vec<Folder>,
    },
    /// The ops, each with its observed state.
    States {
        /// In the op's order.
        states: Vec<ObservedState>,
        /// Folders that were created for the ops' files, with their modes and owners.
        folders: BTreeMap<String, FolderAccess>,
        /// Whether they are in the state that they found.
        back: bool,
    },
}

/// The observed state of a folder to be moved aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Folder {
    /// Absolute.
    pub path: String,
    /// Whether it has content that is not moved aside.
    pub occupied: bool,
    /// Number of moved folders that existed before: content that is renamed later gets this number or a higher one.
    pub asides: usize,
}

/// Mode and owner of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FolderAccess {
    /// Permission bits.
    pub mode: u32,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl State for Traces {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}

impl<O> Reset<O> {
    /// Whether it removes the ledger itself, so that its own end cannot be recorded there.
    pub const fn forgets(&self) -> bool {
        matches!(self, Self::Purge { .. })
    }
}

impl<O: AnyOp + Serialize + DeserializeOwned> OpKind for Reset<O> {
    type State = Traces;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        match self {
            Self::PodsStopped => vec![ResourceChange::unknown(Resource::Pods)],
            Self::MoveStateAside { paths, .. } => {
                paths.iter().map(|path| ResourceChange::unknown(Resource::Path(path.clone()))).collect()
            }
            Self::NetworkCleared => vec![ResourceChange::unknown(Resource::Network)],
            Self::Reverted { ops, .. } => ops.iter().flat_map(AnyOp::all_touches).collect(),
            Self::Purge { .. } => vec![ResourceChange::unknown(Resource::Stamp)],
        }
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::End
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl<O: AnyOp> fmt::Display for Reset<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodsStopped => f.write_str("no process of a pod, no init or join that still runs"),
            Self::MoveStateAside { paths, spared, .. } => {
                write!(f, "set aside {}", paths.join(" "))?;
                let mut stays = spared.iter().flat_map(stays).filter(|path| !spared.contains_key(path)).peekable();
                if stays.peek().is_some() {
                    f.write_str("; what was there before stays:")?;
                }
                stays.try_for_each(|path| write!(f, " {path}"))
            }
            Self::NetworkCleared => f.write_str("no link, rule or set of a cluster in the network"),
            Self::Reverted { ops, .. } => {
                write!(f, "as found before:")?;
                ops.iter().try_for_each(|op| write!(f, "\n    {op}"))
            }
            Self::Purge { paths, .. } => {
                write!(f, "deleted: ledger, store, stamp, agent, what was set aside of {}", paths.join(" "))
            }
        }
    }
}

fn stays<'a>((folder, names): (&'a String, &'a Vec<String>)) -> impl Iterator<Item = String> + 'a {
    names.iter().map(move |name| format!("{folder}/{name}"))
}
