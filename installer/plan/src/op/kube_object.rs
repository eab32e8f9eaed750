//! Kubernetes objects applied.

use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kind::{AfterReset, Needs, OpKind, Scope, State};
use crate::place::Place;
use crate::touch::{Thing, Touch};

/// Objects applied with the admin kubeconfig (server-side apply, field manager `kubexm`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeObject {
    /// For people and for the applied-stamp: `flannel`.
    pub name: String,
    /// YAML documents, a text of the plan.
    pub text: Digest,
}

/// How far the objects are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Applied {
    /// No cluster, or it does not answer.
    Unknown,
    /// None of them is there.
    Absent,
    /// Some are missing or say something else, and what they say is not known.
    Different,
    /// Some are missing or say something else.
    Other {
        /// Those that are there, as an apply takes them; never a Secret.
        objects: Vec<Value>,
    },
    /// An apply would change nothing.
    Same,
}

impl OpKind for KubeObject {
    type State = Applied;

    fn touches(&self) -> Vec<Touch> {
        vec![Touch::sets(Thing::Objects(self.name.clone()), self.text.to_string())]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { text: Some(self.text), things: vec![Thing::AdminConf, Thing::Api], ..Needs::nothing() }
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn after_reset(&self) -> AfterReset {
        AfterReset::Restored
    }
}

impl fmt::Display for KubeObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "objects {} from {}", self.name, self.text.short())
    }
}

impl State for Applied {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&Place> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
