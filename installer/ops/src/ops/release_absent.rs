//! A release that cluster.yaml no longer has: helm uninstalls it. Its revisions are kept in the node's ledger before, so that a
//! rollback can install the last one again.

use kubexm_plan::op::{FoundToRemove, ReleaseAbsent};

use super::helm_release::removal;
use crate::{Converge, Machine, OpError, Wave, kube};

impl Converge for ReleaseAbsent {
    fn observe(&self, machine: &Machine) -> Result<FoundToRemove, OpError> {
        if !kube::has_admin_conf(machine) {
            return Ok(FoundToRemove::Unknown);
        }
        removal::observe(machine, self)
    }

    fn satisfied(&self, found: &FoundToRemove, _: &Machine) -> bool {
        matches!(found, FoundToRemove::Absent | FoundToRemove::Foreign)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        removal::remove(machine, self)
    }

    fn restore(&self, machine: &Machine, before: &FoundToRemove, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Stop || !kube::has_control_plane(machine) {
            return Ok(());
        }
        match before {
            FoundToRemove::Unknown | FoundToRemove::Absent | FoundToRemove::Foreign => Ok(()),
            FoundToRemove::There { release, history } => removal::bring_back(machine, self, release, history),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for ReleaseAbsent {
        // A rollback of helm is another revision.
        const TESTED: Tested<Case<Self>> = Tested::In("release_absent.rs");
    }
}
