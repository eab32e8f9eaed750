//! An annotation that must be on a node.

use kubexm_plan::op::{Annotated, NodeAnnotation};
use serde_json::json;

use crate::kube;
use crate::{Converge, Machine, OpError, Wave};

impl Converge for NodeAnnotation {
    fn observe(&self, machine: &Machine) -> Result<Annotated, OpError> {
        let node = kube::node(machine, &self.node)?;
        let value = node.as_ref().and_then(|node| node.get("metadata")?.get("annotations")?.get(&self.key)?.as_str());
        Ok(Annotated { known: node.is_some(), value: value.map(str::to_owned) })
    }

    fn satisfied(&self, found: &Annotated, _: &Machine) -> bool {
        found.value.as_ref() == Some(&self.value)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        kube::patch_node(machine, &self.node, &json!({"metadata": {"annotations": {&self.key: self.value}}}))
    }

    fn restore(&self, machine: &Machine, before: &Annotated, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Stop || !before.known || !kube::has_control_plane(machine) {
            return Ok(());
        }
        // The node was deleted by a later part of an undo that is being repeated.
        if kube::find_node(machine, &self.node)?.is_none() {
            return Ok(());
        }
        kube::patch_node(machine, &self.node, &json!({"metadata": {"annotations": {&self.key: before.value}}}))
    }
}
