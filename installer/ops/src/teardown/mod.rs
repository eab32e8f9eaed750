//! Taking a cluster's traces off a machine: what `kubeadm reset` leaves to the operator, and what `reset` does without it.
//!
//! Shared by [`kubexm_plan::Act::KubeadmReset`] (the rollback of an init or join) and by the ops of the `reset`
//! pipeline. The order that works: stop kubelet, [`pods::stop_all`], stop containerd, [`unmount::unmount_below`] what it
//! and kubelet mounted, [`network::clear`], and only then [`mounts::remove_tree`] or a rename. Each function only takes
//! away: twice is the same as once, and what is not there is no error.

pub mod cgroups;
pub mod foreign;
pub mod mounts;
pub mod network;
pub mod pods;
pub mod rules;
pub mod unmount;

use crate::{Machine, paths};

/// Whether a program is there to be run: what a cluster may have used and this host never had leaves no traces.
pub(crate) fn has_program(machine: &Machine, name: &str) -> bool {
    paths::PATH.split(':').any(|folder| machine.path(format!("{folder}/{name}")).exists())
}
