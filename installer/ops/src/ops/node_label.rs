//! A label that must be on a node.

use kubexm_plan::op::{Labelled, NodeLabel};

use crate::kube::{self, kubectl};
use crate::{Converge, Machine, OpError, Wave};

impl Converge for NodeLabel {
    fn observe(&self, machine: &Machine) -> Result<Labelled, OpError> {
        let node = kube::node(machine, &self.node)?;
        let value = node.as_ref().and_then(|node| node.get("metadata")?.get("labels")?.get(&self.key)?.as_str());
        Ok(Labelled { known: node.is_some(), value: value.map(str::to_owned) })
    }

    fn satisfied(&self, found: &Labelled, _: &Machine) -> bool {
        found.value.as_ref() == Some(&self.value)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let label = format!("{}={}", self.key, self.value);
        machine.run(&kubectl(["label", "--overwrite", "node", &self.node, &label])).map(drop)
    }

    fn restore(&self, machine: &Machine, before: &Labelled, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Stop || !before.known || !kube::has_control_plane(machine) {
            return Ok(());
        }
        // The node was deleted by a later part of an undo that is being repeated.
        if kube::find_node(machine, &self.node)?.is_none() {
            return Ok(());
        }
        let label = match &before.value {
            Some(value) => format!("{}={value}", self.key),
            None => format!("{}-", self.key),
        };
        machine.run(&kubectl(["label", "--overwrite", "node", &self.node, &label])).map(drop)
    }
}
