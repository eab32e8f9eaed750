//! `inventory.json`: what is on the far side already, so that the near side need not remember what it sent
//! (bundle format v1, "Delta").

use serde::{Deserialize, Serialize};

use crate::Digest;

/// The schema this program writes and reads.
pub const SCHEMA: &str = "kubexm.io/inventory/v1";

/// The most bytes that an inventory may have: a hundred thousand blobs have a tenth of it.
pub const LIMIT: u64 = 64 << 20;

/// Blobs and packages that are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Inventory {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Sorted, each once.
    pub blobs: Vec<Digest>,
    /// What the package managers of the nodes list; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Node>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Node {
    /// Its name in cluster.yaml.
    pub name: String,
    /// `ubuntu-22.04`.
    pub os: String,
    /// `amd64`, `arm64`.
    pub arch: String,
    /// Sorted by name, then architecture.
    pub packages: Vec<Package>,
}

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Package {
    /// Name in the package manager.
    pub name: String,
    /// With epoch and release.
    pub version: String,
    /// Architecture in the package manager's terms: `amd64`, `all`, `x86_64`, `noarch`.
    pub arch: String,
}

/// Why bytes are no inventory.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// It is no JSON of this form.
    #[error("it is not an inventory: {0}; give a file that kubexm-install inventory wrote")]
    Form(#[from] serde_json::Error),
    /// Another, perhaps newer, schema.
    #[error("its schema is {0:?}, and this program reads {SCHEMA}; use the kubexm that came with it")]
    Schema(String),
}

impl Inventory {
    /// An inventory of these blobs alone.
    pub fn of_blobs(blobs: impl IntoIterator<Item = Digest>) -> Self {
        let mut blobs: Vec<Digest> = blobs.into_iter().collect();
        blobs.sort();
        blobs.dedup();
        Self { schema: SCHEMA.to_owned(), blobs, nodes: Vec::new() }
    }

    /// Reads it. The caller has held the size against [`LIMIT`].
    pub fn parse(bytes: &[u8]) -> Result<Self, InventoryError> {
        #[derive(Deserialize)]
        struct Schema {
            schema: String,
        }
        let Schema { schema } = serde_json::from_slice(bytes)?;
        if schema != SCHEMA {
            return Err(InventoryError::Schema(schema));
        }
        Ok(serde_json::from_slice(bytes)?)
    }

    /// Its text, with a newline at the end.
    pub fn to_json(&self) -> String {
        // Only maps with keys that are no strings cannot be written, and there are none.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inventory_reads_back_sorted_and_each_blob_once() {
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        let inventory = Inventory::of_blobs([two, one, two]);
        assert_eq!(inventory.blobs.len(), 2);
        assert_eq!(Inventory::parse(inventory.to_json().as_bytes()).ok(), Some(inventory));
    }

    #[test]
    fn another_schema_is_distinguished_from_other_files() {
        let other = br#"{"schema":"kubexm.io/inventory/v9","things":1}"#;
        assert!(matches!(Inventory::parse(other), Err(InventoryError::Schema(_))));
        assert!(matches!(Inventory::parse(b"[]"), Err(InventoryError::Form(_))));
    }
}
