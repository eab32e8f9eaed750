//! Content of this machine that is packed from where it lies: `extraFiles`, `kubexm-install`, layers of OCI layouts. It is not copied
//! into the cache, which would read, write and sync all of it once more; the archive compares what it packs with the digest.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kubexm_spec::Digest;

/// The file of each such blob. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct InPlace(Arc<Mutex<HashMap<Digest, PathBuf>>>);

impl InPlace {
    /// This file has the blob, or is expected to: what it has is compared when it is packed.
    pub fn insert(&self, blob: Digest, path: &Path) {
        // The first of several: a second run of the same build reads the same file.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(blob).or_insert_with(|| path.to_owned());
    }

    /// Where a blob lies; none of what the cache has.
    pub fn path(&self, blob: &Digest) -> Option<PathBuf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(blob).cloned()
    }
}
