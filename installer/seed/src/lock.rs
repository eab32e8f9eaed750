//! The lock in a bundle, which says what an image is made of and what is attached to it.

use kubexm_archive::{Bundle, DOCUMENT_LIMIT};
use kubexm_spec::Lock;

use crate::error::SeedError;

/// The most YAML values in a lock: each item has about twenty, a large image about a hundred.
const NODES: usize = 4_000_000;

/// Reads it. The member is the lock as YAML, not the JSON of the lock file. Its size, depth and number of values are limited,
/// since a bundle may be unsigned.
pub fn lock(bundle: &Bundle) -> Result<Lock, SeedError> {
    let text = bundle.read("lock.yaml", DOCUMENT_LIMIT)?;
    let text = std::str::from_utf8(&text).map_err(|error| SeedError::Lock(error.to_string()))?;
    let budget = serde_saphyr::budget! { max_nodes: NODES, max_events: 4 * NODES, max_documents: 1, max_depth: 64 };
    let options = serde_saphyr::options! { budget: budget, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| SeedError::Lock(error.to_string()))
}
