//! The reviewed list of imperative actions: how each is seen to have happened, and how a half-done one is cleared.

pub(crate) mod kubeadm_init;
pub(crate) mod kubeadm_join;
pub(crate) mod kubeadm_reset;
pub(crate) mod mark;
mod members;
mod node_awaited;
mod node_delete;

use kubeadm_join::Join;
use kubexm_plan::op::Act;
use kubexm_plan::state_folders;
use serde::{Deserialize, Serialize};

use crate::{Converge, Machine, OpError, Wave, folder};

/// How far an act has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Progress {
    /// Nothing of it is there.
    NotBegun,
    /// A kill in the middle left something, or it is running right now.
    HalfDone,
    /// It has happened.
    Done,
    /// It had happened, and something took a part of it away since.
    Damaged,
    /// What it would make is there, and not from us.
    Foreign,
}

/// What was journalled of an act.
pub(crate) fn progress(state: &serde_json::Value) -> Result<Progress, OpError> {
    Progress::deserialize(state).map_err(|error| {
        OpError::other(format!(
            "the journalled state of an act cannot be read: {error}; was it written by another version?"
        ))
    })
}

impl Progress {
    /// Whether the act's way back may take away what is there: it is ours, and was not there before.
    pub(crate) const fn may_be_undone(self) -> bool {
        matches!(self, Self::NotBegun | Self::HalfDone)
    }
}

/// kubeadm's check of etcd's folder fails on any entry: `lost+found` of a disk of its own is no reason, and neither is
/// what was moved aside in it. A folder with any other file is kubeadm's to refuse.
fn ignored(machine: &Machine, ignore: &[String]) -> Vec<String> {
    let folder = machine.path(state_folders::ETCD);
    let has_entries = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    let harmless = has_entries && folder::content(machine, state_folders::ETCD, 1).files == 0;
    ignore.iter().cloned().chain(harmless.then(|| ETCD_EMPTY.to_owned())).collect()
}

/// Name of that check (kubeadm's `DirAvailableCheck`).
const ETCD_EMPTY: &str = "DirAvailable--var-lib-etcd";

impl Converge for Act {
    type State = Progress;

    fn observe(&self, machine: &Machine) -> Result<Progress, OpError> {
        match self {
            Self::KubeadmInit { .. } => kubeadm_init::observe(machine),
            Self::KubeadmReset { .. } => kubeadm_reset::observe(machine),
            Self::KubeadmJoin { config, slots, cri_socket, control_plane, ignore } => {
                Join { config, slots, cri_socket, control_plane: *control_plane, ignore }.observe(machine)
            }
            Self::NodeAwaited { node } => node_awaited::observe(machine, node),
            Self::NodeDelete { node } => node_delete::observe(machine, node),
        }
    }

    fn satisfied(&self, found: &Progress, _: &Machine) -> bool {
        *found == Progress::Done
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        match self {
            Self::KubeadmInit { config, cri_socket, ignore } => {
                kubeadm_init::converge(machine, config, cri_socket, ignore)
            }
            Self::KubeadmReset { cri_socket } => kubeadm_reset::converge(machine, cri_socket),
            Self::KubeadmJoin { config, slots, cri_socket, control_plane, ignore } => {
                Join { config, slots, cri_socket, control_plane: *control_plane, ignore }.converge(machine)
            }
            Self::NodeAwaited { node } => node_awaited::converge(machine, node),
            Self::NodeDelete { node } => node_delete::converge(machine, node),
        }
    }

    /// An act is taken back by another act, which its step names.
    fn restore(&self, _: &Machine, before: &Progress, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Stop || *before == Progress::Done {
            return Ok(());
        }
        Err(OpError::other(
            "an act has no state to restore: its step must name the act that takes it back; this is a fault of the plan",
        ))
    }
}
