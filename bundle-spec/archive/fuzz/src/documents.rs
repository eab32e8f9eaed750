//! Documents that come from elsewhere.

use kubexm_builder::oci::artifact::Artifact;
use kubexm_spec::cluster;
use kubexm_spec::inventory::Inventory;

/// `inventory.json`.
pub(crate) fn inventory(bytes: &[u8]) {
    if let Ok(inventory) = Inventory::parse(bytes) {
        assert_eq!(Inventory::parse(inventory.to_json().as_bytes()).unwrap(), inventory);
    }
}

/// The manifest of a bundle in a registry.
pub(crate) fn artifact(bytes: &[u8]) {
    if let Ok(artifact) = Artifact::parse(bytes) {
        assert_eq!(Artifact::parse(&artifact.to_json().unwrap()).unwrap(), artifact);
        let _ = artifact.size();
    }
}

/// `cluster.yaml`.
pub(crate) fn cluster(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = cluster::parse(text);
    }
}
