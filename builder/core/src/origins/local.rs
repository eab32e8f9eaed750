//! Files of this machine: `extraFiles` with a `path`, and `kubexm-install`.

use std::path::Path;

use kubexm_spec::Digest;
use kubexm_transport::Store;

use crate::BuildError;

/// Copies a file into the store and says what it was.
pub fn take(item: &str, path: &Path, store: &Store) -> Result<(Digest, u64), BuildError> {
    let local = |source| BuildError::Local { path: path.to_owned(), source };
    let mut file = std::fs::File::open(path).map_err(local)?;
    if !file.metadata().map_err(local)?.is_file() {
        return Err(local(std::io::Error::other("it is no regular file")));
    }
    store
        .insert(&mut file, None)
        .map_err(|source| BuildError::Fetch { item: item.to_owned(), source: Box::new(source) })
}
