//! A taint that must be on a node.

use kubexm_plan::op::{NodeTainted, Taint, Taints};

use crate::kube::{self, kubectl};
use crate::{Converge, Machine, OpError, Wave};

impl Converge for NodeTainted {
    fn observe(&self, machine: &Machine) -> Result<Taints, OpError> {
        let taints = kube::taints(machine, &self.node)?;
        let same = |taint: &Taint| taint.key == self.key && taint.effect == self.effect;
        Ok(Taints { taints: taints.map(|all| all.into_iter().filter(same).collect()) })
    }

    fn satisfied(&self, found: &Taints, _: &Machine) -> bool {
        found.taints.as_deref().is_some_and(|found| found.iter().any(|taint| taint.value == self.value))
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let Self { node, key, value, effect } = self;
        let taint = Taint { key: key.clone(), value: value.clone(), effect: effect.clone() };
        kube::taint(machine, node, &taint)
    }

    fn restore(&self, machine: &Machine, before: &Taints, wave: Wave) -> Result<(), OpError> {
        let Some(taints) = &before.taints else { return Ok(()) };
        if !kube::restores_nodes(machine, &self.node, wave)? {
            return Ok(());
        }
        if let Some(before) = taints.first() {
            return kube::taint(machine, &self.node, before);
        }
        // kubectl fails if the taint to remove does not exist.
        match self.observe(machine)?.taints {
            Some(now) if !now.is_empty() => machine
                .run(&kubectl(["taint", "node", &self.node, &format!("{}:{}-", self.key, self.effect)]))
                .map(drop),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for NodeTainted {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("a taint that is wanted", |h| {
            h.with_cluster();
            NodeTainted { node: "node1".into(), key: "a".into(), value: "b".into(), effect: "NoExecute".into() }
        })]);
    }
}
