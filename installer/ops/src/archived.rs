//! Contents of archives, cached for the duration of a process: an archive that was read while observing is not read
//! again for the change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kubexm_spec::Digest;

/// Member path → digest of its bytes.
pub(crate) type Contents = BTreeMap<String, Digest>;

/// By the digest of the archive. Shared by the clones of a [`crate::Machine`].
///
/// It does not prove that the archive is unchanged: files are compared with the archive when they are written.
/// It is no proof that the archive still holds it: who places files reads them, and compares.
#[derive(Debug, Default)]
pub(crate) struct Archived(Mutex<BTreeMap<Digest, Arc<Contents>>>);

impl Archived {
    /// The contents, from the cache or with `read`.
    pub(crate) fn contents<E>(
        &self,
        blob: Digest,
        read: impl FnOnce() -> Result<Contents, E>,
    ) -> Result<Arc<Contents>, E> {
        if let Some(known) = self.known().get(&blob) {
            return Ok(Arc::clone(known));
        }
        let contents = Arc::new(read()?);
        self.known().insert(blob, Arc::clone(&contents));
        Ok(contents)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<Digest, Arc<Contents>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
