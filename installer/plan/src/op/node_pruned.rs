//! A node without what cluster.yaml no longer sets on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

use super::node_untainted::Taint;

/// A node without the labels, annotations and taints that an earlier cluster.yaml had set and this one does not have. Those of
/// others stay: a record in the cluster, which nodes cannot write, says what is cluster.yaml's. It is written before anything of it is set,
/// so that an interrupted run leaves nothing that has no owner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodePruned {
    /// Node name.
    pub node: String,
    /// What cluster.yaml sets on it.
    pub applied: NodeApplied,
}

/// What of a node is cluster.yaml's, by names alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeApplied {
    /// Keys.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// Keys.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub annotations: BTreeSet<String>,
    /// `dedicated:NoSchedule`: key and effect identify a taint.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub taints: BTreeSet<String>,
}

/// What the record says is cluster.yaml's, and what of that is there and no longer wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pruned {
    /// Whether the API server answers and knows the node.
    pub known: bool,
    /// The record's text; none if there is none of this node.
    pub recorded: Option<String>,
    /// With their values.
    pub labels: BTreeMap<String, String>,
    /// With their values.
    pub annotations: BTreeMap<String, String>,
    /// In the node object's order.
    pub taints: Vec<Taint>,
}

impl NodeApplied {
    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty() && self.taints.is_empty()
    }

    /// The record's text; none if there is nothing to say.
    pub fn text(&self) -> Option<String> {
        (!self.is_empty()).then(|| serde_json::json!(self).to_string())
    }

    /// What a record says. One that cannot be read names nothing: what has no owner that is known is kept.
    pub fn of_text(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The name of a taint.
    pub fn taint(key: &str, effect: &str) -> String {
        format!("{key}:{effect}")
    }
}

impl OpKind for NodePruned {
    type State = Pruned;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let record = Resource::NodeRecord(self.node.clone());
        vec![ResourceChange::sets(record, self.applied.text().as_deref().unwrap_or("absent"))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { resources: vec![Resource::AdminConf, Resource::Node(self.node.clone())], ..Needs::nothing() }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for NodePruned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} without labels, annotations and taints that cluster.yaml had before", self.node)
    }
}

impl State for Pruned {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
