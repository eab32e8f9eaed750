//! Removes the traces of a cluster from a machine: what `kubeadm reset` leaves to the operator, and what `reset` does
//! without it.
//!
//! Shared by [`kubexm_plan::Act::KubeadmReset`] (the rollback of an init or join) and by the ops of the `reset`
//! pipeline. The required order: stop kubelet, [`pods::stop_all`], stop containerd, [`unmount::unmount_below`] what it
//! and kubelet have mounted, [`network::clear`], and only then [`mounts::remove_tree`] or a rename. Each function only
//! removes things: it can be repeated, and a missing thing is not an error.

mod aside;
pub mod cgroups;
pub mod datapath;
pub mod foreign;
pub mod mounts;
pub mod moving_address;
pub mod network;
mod pins;
pub mod pods;
mod routes;
mod routing;
pub mod rules;
pub mod unmount;

use crate::{Machine, paths};

/// Whether a program is installed: without it, the host has none of its traces.
pub(crate) fn has_program(machine: &Machine, name: &str) -> bool {
    paths::PATH.split(':').any(|folder| machine.path(format!("{folder}/{name}")).exists())
}
