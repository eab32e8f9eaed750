//! The parts of `reset`. Each except the last can be rolled back.

mod purge;
mod reverted;
mod set_aside;

use kubexm_plan::Reset;
use kubexm_plan::op::reset::Traces;

use crate::ops::packages;
use crate::teardown::{datapath, foreign, moving_address, network, pods};
use crate::{Converge, Machine, OpError, Wave, systemd, transient};

fn left(what: Vec<String>) -> Traces {
    Traces::Left { what }
}

const KUBELET: &str = "kubelet.service";

/// Stops a running init or join, which outlives its agent: it would start kubelet and write what is about to be
/// removed. Since it may have started kubelet already, kubelet is stopped again.
fn stop(machine: &Machine) -> Result<(), OpError> {
    // Stopping a package manager would leave packages incomplete.
    packages::wait(machine)?;
    datapath::refuse(machine)?;
    for unit in transient::running(machine)? {
        systemd::stop(machine, &unit)?;
    }
    if systemd::show(machine, KUBELET)?.running() {
        systemd::stop(machine, KUBELET)?;
    }
    pods::stop_all(machine)?;
    moving_address::remove(machine)
}

impl Converge for Reset {
    fn observe(&self, machine: &Machine) -> Result<Traces, OpError> {
        Ok(match self {
            Self::PodsStopped => {
                let mut what = transient::running(machine)?;
                what.extend(pods::running(machine)?.iter().map(|found| format!("{} (pid {})", found.name, found.pid)));
                left(what)
            }
            Self::NetworkCleared => left(network::leftovers(machine)?),
            Self::MoveStateAside { paths, spared, moved } => {
                let look = |path: &String| set_aside::look(machine, path, spared, moved);
                Traces::Folders { folders: paths.iter().map(look).collect::<Result<_, _>>()? }
            }
            Self::Reverted { ops, before } => reverted::observe(machine, ops, before)?,
            Self::Purge { paths, .. } => left(purge::left(machine, paths)?),
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
            Self::MoveStateAside { paths, spared, moved } => {
                // For all folders, before anything is unmounted.
                paths.iter().try_for_each(|path| foreign::refuse(machine, path))?;
                paths.iter().try_for_each(|path| set_aside::set_aside(machine, path, spared, moved))
            }
            Self::Reverted { ops, before } => reverted::revert(machine, ops, before),
            Self::Purge { paths, parents } => purge::purge(machine, paths, parents),
        }
    }

    /// Pods and rules are restored by the units that create them, which are started by the steps that stopped them.
    fn restore(&self, machine: &Machine, before: &Traces, wave: Wave) -> Result<(), OpError> {
        match (self, before) {
            (Self::MoveStateAside { spared, .. }, Traces::Folders { folders }) if wave == Wave::Data => {
                folders.iter().rev().try_for_each(|folder| set_aside::bring_back(machine, folder, spared))
            }
            (Self::Reverted { ops, .. }, Traces::States { states, folders, .. }) => {
                reverted::restore(machine, ops, states, folders, wave)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
impl crate::cases::Cases for Reset {
    const TESTED: crate::cases::Tested<crate::cases::Case<Self>> = crate::cases::Tested::In("teardown.rs");
}
