//! The lock in a bundle, which says what an image is made of and what is attached to it.

use kubexm_archive::{Bundle, DOCUMENT_LIMIT, read_lock};
use kubexm_spec::Lock;

use crate::error::SeedError;

/// Reads it.
pub fn lock(bundle: &Bundle) -> Result<Lock, SeedError> {
    read_lock(&bundle.read("lock.yaml", DOCUMENT_LIMIT)?).map_err(SeedError::Lock)
}
