//! Kubernetes objects applied.

use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};
use crate::slot::SlotName;

/// Objects applied with the admin kubeconfig (server-side apply, field manager `kubexm`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeObject {
    /// Name for people: `flannel`.
    pub name: String,
    /// YAML documents, a text of the plan.
    pub text: Digest,
    /// Slots whose values go into the `data` of Secrets: each [`SlotName::placeholder`] is replaced by the base64 of
    /// the value, so that no value can break out of its field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotName>,
}

impl KubeObject {
    /// Objects without slots.
    pub fn new(name: impl Into<String>, text: Digest) -> Self {
        Self { name: name.into(), text, slots: Vec::new() }
    }
}

/// The state of the objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Applied {
    /// There is no cluster, or it does not answer.
    Unknown,
    /// None of them exists.
    Absent,
    /// Some are missing or different; their earlier content is not recorded.
    Different,
    /// Some are missing or different.
    Other {
        /// Those that exist, in the form in which they can be applied; never a Secret.
        objects: Vec<Value>,
        /// The Secrets that exist: digest of a JSON list in the node's ledger. Since schema 2.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secrets: Option<Digest>,
    },
    /// An apply would change nothing.
    Same,
}

impl OpKind for KubeObject {
    type State = Applied;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let slots = self.slots.iter().map(|slot| format!(" {}", slot.placeholder()));
        vec![ResourceChange::sets(
            Resource::Objects(self.name.clone()),
            format!("{}{}", self.text, slots.collect::<String>()),
        )]
    }

    fn needs(&self) -> Needs<'_> {
        let resources = vec![Resource::AdminConf, Resource::Api];
        Needs { slots: &self.slots, text: Some(self.text), resources, ..Needs::nothing() }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for KubeObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "objects {} from {}", self.name, self.text.short())?;
        match self.slots.as_slice() {
            [] => Ok(()),
            slots => {
                let slots: Vec<&str> = slots.iter().map(|slot| slot.0.as_str()).collect();
                write!(f, " with slot {}", slots.join(", "))
            }
        }
    }
}

impl State for Applied {
    const SCHEMA: u32 = 2;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
