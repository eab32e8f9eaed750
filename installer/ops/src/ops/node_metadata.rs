//! A label or an annotation that must be on a node.

use kubexm_plan::op::{NodeMetadata, NodeValue};
use serde_json::json;

use crate::kube;
use crate::{Converge, Machine, OpError, Wave};

impl<const ANNOTATION: bool> Converge for NodeMetadata<ANNOTATION> {
    fn observe(&self, machine: &Machine) -> Result<NodeValue, OpError> {
        let node = kube::node(machine, &self.node)?;
        let value = node.as_ref().and_then(|node| node.get("metadata")?.get(Self::FIELD)?.get(&self.key)?.as_str());
        Ok(NodeValue { known: node.is_some(), value: value.map(str::to_owned) })
    }

    fn satisfied(&self, found: &NodeValue, _: &Machine) -> bool {
        found.value.as_ref() == Some(&self.value)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        kube::patch_node(machine, &self.node, &json!({"metadata": {Self::FIELD: {&self.key: self.value}}}))
    }

    fn restore(&self, machine: &Machine, before: &NodeValue, wave: Wave) -> Result<(), OpError> {
        if !before.known || !kube::restores_nodes(machine, &self.node, wave)? {
            return Ok(());
        }
        kube::patch_node(machine, &self.node, &json!({"metadata": {Self::FIELD: {&self.key: before.value}}}))
    }
}

#[cfg(test)]
mod tests {
    use kubexm_plan::op::{NodeAnnotation, NodeLabel};

    use crate::cases::{Case, Cases, Tested};

    impl Cases for NodeLabel {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("a label", |h| {
            h.with_cluster();
            NodeLabel { node: "node1".into(), key: "zone".into(), value: "a".into() }
        })]);
    }

    impl Cases for NodeAnnotation {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("an annotation", |h| {
            h.with_cluster();
            NodeAnnotation { node: "node1".into(), key: "example.com/owner".into(), value: "team a".into() }
        })]);
    }
}
