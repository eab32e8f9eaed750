//! What a Harbor of a rooted host keeps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What it keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Harbor {
    pub projects: BTreeMap<String, Project>,
    pub robots: BTreeMap<String, Value>,
    /// `repository/tag` or `repository/digest` → digest.
    pub references: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Project {
    pub id: usize,
    pub public: bool,
    pub storage: i64,
    /// Empty: the administrator.
    pub owner: String,
}
