//! Files of this machine: `extraFiles` with a `path`, and `kubexm-install`.

use std::fs::File;
use std::path::Path;

use kubexm_spec::Digest;
use kubexm_transport::Store;

use crate::BuildError;

/// Whether a file is there and can be read, without reading it.
pub fn check(path: &Path) -> Result<(), BuildError> {
    open(path).map(drop)
}

/// Copies a file into the store and says what it was.
pub fn take(item: &str, path: &Path, store: &Store) -> Result<(Digest, u64), BuildError> {
    store
        .insert(open(path)?, None)
        .map_err(|source| BuildError::Fetch { item: item.to_owned(), source: Box::new(source) })
}

fn open(path: &Path) -> Result<File, BuildError> {
    let local = |source| BuildError::Local { path: path.to_owned(), source };
    // Asked before it is opened: opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(local)?.is_file() {
        return Err(local(std::io::Error::other("it is not a regular file")));
    }
    File::open(path).map_err(local)
}
