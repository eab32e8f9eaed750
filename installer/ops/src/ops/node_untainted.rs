//! A taint that must not be on a node.

use kubexm_plan::op::{NodeUntainted, Taints};

use crate::kube::{self, kubectl};
use crate::{Converge, Machine, OpError, Wave};

impl Converge for NodeUntainted {
    fn observe(&self, machine: &Machine) -> Result<Taints, OpError> {
        let taints = kube::taints(machine, &self.node)?;
        Ok(Taints { taints: taints.map(|all| all.into_iter().filter(|taint| taint.key == self.key).collect()) })
    }

    fn satisfied(&self, found: &Taints, _: &Machine) -> bool {
        found.taints.as_ref().is_some_and(Vec::is_empty)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        // kubectl fails if the taint to remove does not exist.
        if self.satisfied(&self.observe(machine)?, machine) {
            return Ok(());
        }
        machine.run(&kubectl(["taint", "node", &self.node, &format!("{}-", self.key)])).map(drop)
    }

    fn restore(&self, machine: &Machine, before: &Taints, wave: Wave) -> Result<(), OpError> {
        let Some(taints) = &before.taints else { return Ok(()) };
        if !kube::restores_nodes(machine, &self.node, wave)? {
            return Ok(());
        }
        taints.iter().try_for_each(|taint| kube::taint(machine, &self.node, taint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for NodeUntainted {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("a taint", |h| {
            h.with_cluster();
            NodeUntainted { node: "node1".into(), key: "node-role.kubernetes.io/control-plane".into() }
        })]);
    }
}
