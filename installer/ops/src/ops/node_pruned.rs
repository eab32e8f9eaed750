//! A node without what cluster.yaml no longer sets on it.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::op::{NodeApplied, NodePruned, Pruned, Taint};
use serde_json::{Map, Value, json};

use crate::kube::{self, kubectl};
use crate::{Converge, Machine, OpError, Wave, node_record};

impl Converge for NodePruned {
    fn observe(&self, machine: &Machine) -> Result<Pruned, OpError> {
        let Some(node) = kube::node(machine, &self.node)? else {
            let (labels, annotations) = (BTreeMap::new(), BTreeMap::new());
            return Ok(Pruned { known: false, recorded: None, labels, annotations, taints: Vec::new() });
        };
        let recorded = node_record::read(machine, &node, &self.node)?;
        let earlier = NodeApplied::of_text(recorded.as_deref());
        let is_stale = |taint: &Taint| {
            let name = NodeApplied::taint(&taint.key, &taint.effect);
            earlier.taints.contains(&name) && !self.applied.taints.contains(&name)
        };
        Ok(Pruned {
            known: true,
            recorded,
            labels: stale(&node, "/metadata/labels", &earlier.labels, &self.applied.labels),
            annotations: stale(&node, "/metadata/annotations", &earlier.annotations, &self.applied.annotations),
            taints: kube::taints_of(&node, &self.node)?.into_iter().filter(is_stale).collect(),
        })
    }

    fn satisfied(&self, found: &Pruned, _: &Machine) -> bool {
        found.known && NodeApplied::of_text(found.recorded.as_deref()) == self.applied
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let found = self.observe(machine)?;
        // The record is the last: what it still names is removed by the next try.
        for taint in &found.taints {
            let name = NodeApplied::taint(&taint.key, &taint.effect);
            machine.run(&kubectl(["taint", "node", &self.node, &format!("{name}-")]))?;
        }
        let labels = found.labels.into_keys().map(|key| (key, Value::Null)).collect();
        let annotations = found.annotations.into_keys().map(|key| (key, Value::Null)).collect();
        patch(machine, &self.node, labels, annotations)?;
        match kube::find_node(machine, &self.node)? {
            Some(node) => node_record::write(machine, &node, &self.node, self.applied.text().as_deref()),
            None => Err(OpError::other(format!("the cluster has no node {}", self.node))),
        }
    }

    fn restore(&self, machine: &Machine, before: &Pruned, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Stop || !before.known || !kube::has_control_plane(machine) {
            return Ok(());
        }
        // The node was deleted by a later part of an undo that is being repeated.
        let Some(node) = kube::find_node(machine, &self.node)? else { return Ok(()) };
        before.taints.iter().try_for_each(|taint| kube::taint(machine, &self.node, taint))?;
        let values = |all: &BTreeMap<String, String>| -> Map<String, Value> {
            all.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect()
        };
        patch(machine, &self.node, values(&before.labels), values(&before.annotations))?;
        node_record::write(machine, &node, &self.node, before.recorded.as_deref())
    }
}

/// Labels and annotations in one request; null removes one.
fn patch(
    machine: &Machine,
    node: &str,
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
) -> Result<(), OpError> {
    if labels.is_empty() && annotations.is_empty() {
        return Ok(());
    }
    kube::patch_node(machine, node, &json!({"metadata": {"labels": labels, "annotations": annotations}}))
}

/// What the node has of those that are recorded and no longer wanted.
fn stale(node: &Value, at: &str, recorded: &BTreeSet<String>, wanted: &BTreeSet<String>) -> BTreeMap<String, String> {
    let there = node.pointer(at);
    let value = |key: &String| there?.get(key)?.as_str().map(|value| (key.clone(), value.to_owned()));
    recorded.difference(wanted).filter_map(value).collect()
}
