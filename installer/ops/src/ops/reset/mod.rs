//! The parts of `reset`. Each can be taken back, but for the last.

mod forgotten;
mod reverted;
mod set_aside;

use std::collections::BTreeMap;

use kubexm_plan::Found;
use kubexm_plan::reset::Reset;
use serde::{Deserialize, Serialize};

use crate::ops::packages;
use crate::teardown::{foreign, network, pods};
use crate::{Converge, Machine, OpError, Wave, systemd, transient};

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Traces {
    /// What is left, for people.
    Left {
        /// Empty when nothing is.
        what: Vec<String>,
    },
    /// The folders.
    Folders {
        /// In the op's order.
        folders: Vec<set_aside::Folder>,
    },
    /// The ops, each as it was found.
    States {
        /// In the op's order.
        states: Vec<Found>,
        /// Folders that were made for the ops' files, with their modes and owners.
        folders: BTreeMap<String, reverted::Access>,
        /// Whether they are as they were found then.
        back: bool,
    },
}

impl Traces {
    fn left(what: Vec<String>) -> Self {
        Self::Left { what }
    }
}

const KUBELET: &str = "kubelet.service";

/// An init or join outlives its agent: it would go on to start kubelet and write what is about to be taken away. One that
/// came that far has started kubelet since it was stopped.
fn stop(machine: &Machine) -> Result<(), OpError> {
    // A package manager that is stopped would leave the host in the middle.
    packages::wait(machine)?;
    for unit in transient::running(machine)? {
        systemd::stop(machine, &unit)?;
    }
    if systemd::show(machine, KUBELET)?.running() {
        systemd::stop(machine, KUBELET)?;
    }
    pods::stop_all(machine)
}

impl Converge for Reset {
    type State = Traces;

    fn observe(&self, machine: &Machine) -> Result<Traces, OpError> {
        Ok(match self {
            Self::PodsStopped => {
                let mut left = transient::running(machine)?;
                left.extend(pods::running(machine)?.iter().map(|found| format!("{} (pid {})", found.name, found.pid)));
                Traces::left(left)
            }
            Self::NetworkCleared => Traces::left(network::leftovers(machine)?),
            Self::SetAside { paths, spared, moved } => {
                let look = |path: &String| set_aside::look(machine, path, spared, moved);
                Traces::Folders { folders: paths.iter().map(look).collect::<Result<_, _>>()? }
            }
            Self::Reverted { ops, before } => reverted::observe(machine, ops, before)?,
            Self::Forgotten { paths, .. } => Traces::left(forgotten::left(machine, paths)?),
        })
    }

    fn satisfied(&self, found: &Traces, _: &Machine) -> bool {
        match found {
            Traces::Left { what } => what.is_empty(),
            Traces::Folders { folders } => folders.iter().all(|folder| !folder.occupied),
            Traces::States { back, .. } => *back,
        }
    }

    fn overwrites(&self, machine: &Machine) -> Vec<String> {
        match self {
            Self::Reverted { ops, .. } => ops.iter().flat_map(|op| crate::dispatch::overwrites(op, machine)).collect(),
            _ => Vec::new(),
        }
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        match self {
            Self::PodsStopped => stop(machine),
            Self::NetworkCleared => network::clear(machine),
            Self::SetAside { paths, spared, moved } => {
                // Of all folders, before anything of one is unmounted.
                paths.iter().try_for_each(|path| foreign::refuse(machine, path))?;
                paths.iter().try_for_each(|path| set_aside::set_aside(machine, path, spared, moved))
            }
            Self::Reverted { ops, before } => reverted::revert(machine, ops, before),
            Self::Forgotten { paths, parents } => forgotten::forget(machine, paths, parents),
        }
    }

    /// Pods and rules come back with the units that make them: the steps that stopped those start them again.
    fn restore(&self, machine: &Machine, before: &Traces, wave: Wave) -> Result<(), OpError> {
        match (self, before) {
            (Self::SetAside { spared, .. }, Traces::Folders { folders }) if wave == Wave::Data => {
                folders.iter().rev().try_for_each(|folder| set_aside::bring_back(machine, folder, spared))
            }
            (Self::Reverted { ops, .. }, Traces::States { states, folders, .. }) => {
                reverted::restore(machine, ops, states, folders, wave)
            }
            _ => Ok(()),
        }
    }
}
