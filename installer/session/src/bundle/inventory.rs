//! The blobs that bundles on this side of the air gap contain.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use kubexm_archive::Bundle;
use kubexm_engine::EventSink;
use kubexm_spec::Digest;
use kubexm_spec::inventory::Inventory;
use kubexm_spec::manifest::Member;

use super::opened::verify_bytes;
use crate::error::SessionError;

/// Verifies bundles and lists the blobs that lie in them; what a delta leaves out is not listed.
///
/// # Errors
/// A bundle cannot be opened, or is damaged.
pub fn inventory(bundles: &[PathBuf], events: &dyn EventSink) -> Result<Inventory, SessionError> {
    let mut blobs = Vec::new();
    for path in bundles {
        blobs.extend(blobs_of(path, events)?);
    }
    Ok(Inventory::of_blobs(blobs))
}

fn blobs_of(path: &Path, events: &dyn EventSink) -> Result<Vec<Digest>, SessionError> {
    let bundle = Bundle::open(path)?;
    verify_bytes(&bundle, events)?;
    let left_out: HashSet<&str> = bundle.left_out().map(|member| member.name.as_str()).collect();
    let is_here = |member: &&Member| {
        member.name.starts_with(kubexm_archive::members::BLOBS) && !left_out.contains(member.name.as_str())
    };
    Ok(bundle.manifest().members.iter().filter(is_here).map(|member| member.sha256).collect())
}
