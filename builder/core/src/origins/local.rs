//! Files of this machine: `extraFiles` with a `path`, and `kubexm-install`.

use std::fs::File;
use std::io;
use std::path::Path;

use kubexm_manifests::Requirement;
use kubexm_manifests::requirements::Source;
use kubexm_spec::digest::Hasher;
use kubexm_spec::{Digest, Platform, names};

use super::Origins;
use crate::BuildError;

/// Bytes read at a time.
const CHUNK: usize = 256 << 10;

/// Whether a file is there and can be read, without reading it.
pub fn check(path: &Path) -> Result<(), BuildError> {
    open(path).map(drop)
}

/// The file of this machine that an item is; none of what is elsewhere.
pub fn path_of<'a>(needed: &'a Requirement, origins: &'a Origins) -> Result<Option<&'a Path>, BuildError> {
    match &needed.source {
        Source::LocalFile { path } => Ok(Some(path)),
        Source::Installer => origins.installers.path(needed.platform.unwrap_or(Platform::LINUX_AMD64)).map(Some),
        _ => Ok(None),
    }
}

/// How such a file is called in a bundle.
pub fn file_name(needed: &Requirement) -> String {
    match &needed.source {
        Source::Installer => names::INSTALLER.to_owned(),
        _ => needed.key.name().into_owned(),
    }
}

/// Digest and size in bytes of a file, which is then packed from where it lies.
pub async fn lock(path: &Path, origins: &Origins) -> Result<(Digest, u64), BuildError> {
    let (read, in_place) = (path.to_owned(), origins.in_place.clone());
    let hashed = move || {
        let local = |source| BuildError::Local { path: read.clone(), source };
        let mut hasher = Hasher::default();
        let size = io::copy(&mut io::BufReader::with_capacity(CHUNK, open(&read)?), &mut hasher).map_err(local)?;
        let digest = hasher.finish();
        in_place.insert(digest, &read);
        Ok((digest, size))
    };
    tokio::task::spawn_blocking(hashed).await.map_err(|e| BuildError::Worker(e.to_string()))?
}

/// Takes a file for what a lock says it is, without reading it, where it has the size; the digest is compared when it is packed.
/// Whether it has.
pub fn expect(path: &Path, digest: Digest, size: u64, origins: &Origins) -> Result<bool, BuildError> {
    let found = open(path)?.metadata().map_err(|source| BuildError::Local { path: path.to_owned(), source })?.len();
    if found == size {
        origins.in_place.insert(digest, path);
    }
    Ok(found == size)
}

fn open(path: &Path) -> Result<File, BuildError> {
    let local = |source| BuildError::Local { path: path.to_owned(), source };
    // Asked before it is opened: opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(local)?.is_file() {
        return Err(local(std::io::Error::other("it is not a regular file")));
    }
    File::open(path).map_err(local)
}
