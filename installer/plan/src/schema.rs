//! Reads plans of this version and of earlier ones.

use serde::de::Error as _;
use serde_json::Value;
use thiserror::Error;

use crate::pipeline::Pipeline;
use crate::plan::Plan;

/// Version of the plan's own shape, as it is written.
pub const SCHEMA: u32 = 13;
/// The oldest that is still read. 2 differs in one word: `add-node` was `join`; 3 lacks files with the values of slots in
/// a text; 4 lacks the cluster's id; 5 lacks steps on the controller; 6 lacks restarts of static pods; 7 lacks
/// sealed authorities; 8 lacks releases of helm, taints, renewed certificates, snapshots, restores and upgrades; 9 lacks
/// hosts that serve each other; 10 lacks renewed certificates of the cluster's own authorities; 11 lacks how long these are valid; 12 lacks
/// certificates that a site's CA has signed, members of etcd that come and go, and renewed authorities.
pub const OLDEST_SCHEMA: u32 = 2;
const ADD_NODE_OF_SCHEMA_2: &str = "join";

/// Why a document is not a plan that can be executed.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It was made by an incompatible version.
    #[error("its plan schema is {found}, this program reads {OLDEST_SCHEMA} to {SCHEMA}")]
    Schema {
        /// The schema in the document, or `none`.
        found: String,
    },
    /// Its fields are not those of a plan.
    #[error("it is damaged")]
    Damaged(#[source] serde_json::Error),
}

impl Plan {
    /// Reads a plan of any schema from [`OLDEST_SCHEMA`] on; the caller reads its texts. The plan keeps its schema, and
    /// so its digest.
    pub fn from_json(mut value: Value) -> Result<Self, ReadError> {
        let schema = value.get("schema").and_then(Value::as_u64);
        if !schema.is_some_and(|schema| (u64::from(OLDEST_SCHEMA)..=u64::from(SCHEMA)).contains(&schema)) {
            return Err(ReadError::Schema {
                found: schema.map_or_else(|| "none".to_owned(), |schema| schema.to_string()),
            });
        }
        if schema == Some(2) {
            match value.get_mut("pipeline") {
                Some(name) if name == ADD_NODE_OF_SCHEMA_2 => *name = Pipeline::AddNode.name().into(),
                Some(name) if name == Pipeline::AddNode.name() => {
                    let unknown = serde_json::Error::custom("a plan of schema 2 has no pipeline add-node");
                    return Err(ReadError::Damaged(unknown));
                }
                _ => {}
            }
        }
        serde_json::from_value(value).map_err(ReadError::Damaged)
    }

    /// The bytes of plan.json, in the plan's schema and without texts.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = match self.schema {
            SCHEMA => serde_json::to_vec_pretty(self)?,
            _ => serde_json::to_vec_pretty(&self.to_json()?)?,
        };
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// The plan as JSON, in its schema and without texts.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        let mut value = serde_json::to_value(self)?;
        if self.schema == 2 && self.pipeline == Pipeline::AddNode {
            value["pipeline"] = ADD_NODE_OF_SCHEMA_2.into();
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::{ReadError, SCHEMA};
    use crate::{Pipeline, Plan};

    fn plan(schema: u32, pipeline: &str) -> serde_json::Value {
        serde_json::json!({
            "schema": schema, "pipeline": pipeline, "clusterName": "demo", "cluster": kubexm_spec::Digest::of("yaml"),
            "hosts": [], "fleetConcurrency": 1, "hostConcurrency": 1, "slots": {}, "steps": [],
        })
    }

    #[test]
    fn a_plan_of_an_earlier_schema_keeps_its_digest_and_names() {
        let old = plan(2, "join");
        let read = Plan::from_json(old.clone()).unwrap();
        assert_eq!((read.pipeline, read.schema), (Pipeline::AddNode, 2));
        assert_eq!(read.to_json().unwrap(), old);
        let digest = kubexm_spec::Digest::of(serde_json::to_vec(&old).unwrap());
        assert_eq!(read.digest().unwrap(), digest);
    }

    #[test]
    fn each_schema_has_its_own_names() {
        assert!(matches!(Plan::from_json(plan(2, "add-node")), Err(ReadError::Damaged(_))));
        assert!(matches!(Plan::from_json(plan(3, "join")), Err(ReadError::Damaged(_))));
        for schema in [3, 4, 5, 6, 7, 8, 9, 10, 11, SCHEMA] {
            assert_eq!(Plan::from_json(plan(schema, "add-node")).unwrap().pipeline, Pipeline::AddNode);
        }
        for schema in [0, 1, SCHEMA + 1] {
            assert!(matches!(Plan::from_json(plan(schema, "create")), Err(ReadError::Schema { .. })), "{schema}");
        }
    }
}
