//! The reviewed list of imperative actions: how each is seen to have happened, and how a half-done one is cleared.

pub(crate) mod kubeadm_init;
pub(crate) mod kubeadm_reset;

use kubexm_plan::op::Act;
use serde::{Deserialize, Serialize};

use crate::{Converge, Machine, OpError, Wave};

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

impl Converge for Act {
    type State = Progress;

    fn observe(&self, machine: &Machine) -> Result<Progress, OpError> {
        match self {
            Self::KubeadmInit { .. } => kubeadm_init::observe(machine),
            Self::KubeadmReset { .. } => kubeadm_reset::observe(machine),
            Self::KubeadmJoin { .. } | Self::NodeDelete { .. } => Err(OpError::other("known, not built yet")),
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
            Self::KubeadmJoin { .. } | Self::NodeDelete { .. } => Err(OpError::other("known, not built yet")),
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
