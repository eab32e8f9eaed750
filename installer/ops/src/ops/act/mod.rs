//! The reviewed list of imperative actions: how each is detected, executed and cleaned up.

mod etcd_keys_delete;
mod files;
mod from_backup;
mod ignored;
pub(crate) mod kubeadm_files;
pub(crate) mod kubeadm_init;
pub(crate) mod kubeadm_join;
pub(crate) mod kubeadm_reset;
pub(crate) mod kubeadm_upgrade;
pub(crate) mod mark;
mod member_add;
mod member_changes;
mod member_promote;
mod member_remove;
pub(crate) mod members;
mod node_cordon;
mod node_delete;
mod node_drain;
mod node_lookup;
mod node_uncordon;
mod perform;
mod script;
mod script_run;
mod script_undo;

use kubexm_plan::each_act;
use kubexm_plan::op::{Act, Progress};
use perform::Perform;

use crate::{Converge, Machine, OpError, Wave};

impl Converge for Act {
    fn observe(&self, machine: &Machine) -> Result<Progress, OpError> {
        each_act!(self, act => act.progress(machine))
    }

    fn satisfied(&self, found: &Progress, _: &Machine) -> bool {
        *found == Progress::Done
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        each_act!(self, act => act.perform(machine))
    }

    /// An act is rolled back by another act, which its step names.
    fn restore(&self, _: &Machine, before: &Progress, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Stop || *before == Progress::Done {
            return Ok(());
        }
        Err(OpError::other(
            "an act has no state to restore: its step must name the act that rolls it back; this is a fault of the plan",
        ))
    }
}
