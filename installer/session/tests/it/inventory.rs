//! The blobs of bundles on this side.

use kubexm_archive::Bundle;
use kubexm_engine::events::Silent;
use kubexm_session::{SessionError, inventory};

use crate::bundle::{cluster_yaml, write_bundle};

#[test]
fn blobs_are_listed_only_of_bundles_whose_every_byte_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_bundle(folder.path(), &cluster_yaml("red", &["red1"]));
    let manifest = Bundle::open(&path).unwrap().manifest().clone();
    let mut blobs: Vec<_> = manifest
        .members
        .iter()
        .filter(|member| member.name.starts_with("blobs/"))
        .map(|member| member.sha256)
        .collect();
    blobs.sort();
    assert!(!blobs.is_empty());
    let listed = inventory(&[path.clone(), path.clone()], &Silent).unwrap();
    assert_eq!(listed.blobs, blobs);

    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(matches!(inventory(&[path], &Silent), Err(SessionError::Damaged(_))));
}
