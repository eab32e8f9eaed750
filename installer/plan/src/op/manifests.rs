//! Objects of an add-on, applied as they are in a file of the bundle.

use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};
use crate::slot::SlotName;

/// The text of an add-on without objects.
pub const NOTHING: &str = "";

/// Objects of an add-on (server-side apply, field manager `kubexm`), in the order in which they need each other, until they are
/// ready; what an earlier version of the add-on had and this one has not is removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifests {
    /// Of the add-on.
    pub name: String,
    /// Namespace of the objects that name none. It is created if it does not exist.
    pub namespace: String,
    /// YAML documents: a blob of the node's content store, or a text of the plan.
    pub blob: Digest,
    /// Whether they are a text of the plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_plan: bool,
    /// Slots whose values go into the `data` of Secrets of a text of the plan, as those of [`super::KubeObject`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotName>,
    /// How long to wait for each object, in seconds.
    pub wait_s: u64,
}

/// The state of an add-on's objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum FoundManifests {
    /// There is no cluster, or it does not answer.
    Unknown,
    /// None of them exists.
    Absent {
        /// Whether the namespace exists.
        namespace: bool,
    },
    /// An apply would change nothing, and nothing is left of an earlier version.
    Same,
    /// Some are missing or different, or an earlier version has others.
    Other {
        /// Those that exist, of both versions, in the form in which they can be applied; never a Secret.
        objects: Vec<Value>,
        /// The Secrets that exist: digest of a JSON list in the node's ledger.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secrets: Option<Digest>,
        /// What an earlier version is recorded to have applied.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inventory: Option<Inventory>,
    },
}

/// What a version of an add-on has applied, as it is recorded in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Inventory {
    /// The file that the objects are from; none while a version takes the place of another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<Digest>,
    /// Namespace of the objects that name none.
    pub namespace: String,
    /// Every object: `apiVersion`, `kind` and `metadata` with its name and, if it is in one, its namespace.
    pub objects: Vec<Value>,
}

impl Manifests {
    /// The add-on with this name has no objects any more: what an earlier version has applied is removed.
    pub fn none(name: String, namespace: String, wait_s: u64) -> Self {
        Self { name, namespace, blob: Digest::of(NOTHING), in_plan: true, slots: Vec::new(), wait_s }
    }

    /// Whether it has no objects.
    pub fn is_removal(&self) -> bool {
        self.in_plan && self.blob == Digest::of(NOTHING)
    }
}

impl OpKind for Manifests {
    type State = FoundManifests;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let placeholders = self.slots.iter().map(|slot| format!(" {}", slot.placeholder()));
        vec![ResourceChange::sets(
            Resource::Objects(format!("add-on {}", self.name)),
            format!("{} in {}{}", self.blob, self.namespace, placeholders.collect::<String>()),
        )]
    }

    fn needs(&self) -> Needs<'_> {
        let resources = vec![Resource::AdminConf, Resource::Api];
        match self.in_plan {
            true => Needs { slots: &self.slots, text: Some(self.blob), resources, ..Needs::nothing() },
            false => Needs { blobs: vec![self.blob], resources, ..Needs::nothing() },
        }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for Manifests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_removal() {
            return write!(f, "no objects of add-on {} in {}", self.name, self.namespace);
        }
        write!(f, "objects of add-on {} in {} from {}", self.name, self.namespace, self.blob.short())?;
        let slots: Vec<&str> = self.slots.iter().map(|slot| slot.0.as_str()).collect();
        if slots.is_empty() { Ok(()) } else { write!(f, " with slot {}", slots.join(", ")) }
    }
}

impl State for FoundManifests {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
