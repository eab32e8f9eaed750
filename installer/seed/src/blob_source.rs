//! Where the bytes of blobs are read: a bundle, or the content store of a host, which has the same blobs as files.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use kubexm_archive::Bundle;
use kubexm_spec::Digest;

/// Blobs by digest.
pub trait BlobSource: Send + Sync {
    /// What it is called in messages.
    fn name(&self) -> String;

    /// Whether it has a blob.
    fn has(&self, digest: &Digest) -> bool;

    /// The bytes of a blob from this one on.
    fn blob_from(&self, digest: &Digest, offset: u64) -> io::Result<Box<dyn Read + Send>>;
}

impl BlobSource for Bundle {
    fn name(&self) -> String {
        self.path().display().to_string()
    }

    fn has(&self, digest: &Digest) -> bool {
        self.has_blob(digest)
    }

    /// Compared with the manifest's digest, whatever byte it is read from.
    fn blob_from(&self, digest: &Digest, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(Bundle::blob_from(self, digest, offset).map_err(io::Error::other)?))
    }
}

/// The files `<folder>/<hex>` of a content store. They got their names after their digests were computed, and the registry
/// computes them again.
#[derive(Clone, Debug)]
pub struct BlobFolder(PathBuf);

impl BlobFolder {
    /// `/var/lib/kubexm/store/blobs/sha256`.
    pub fn at(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.0.join(digest.hex())
    }

    /// A small blob, compared with its digest.
    pub(crate) fn read(&self, digest: &Digest, limit: u64) -> io::Result<Bytes> {
        let mut bytes = Vec::new();
        File::open(self.path(digest))?.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::Error::other(format!("{digest} has more than {limit} bytes")));
        }
        if Digest::of(&bytes) != *digest {
            return Err(io::Error::other(format!("the file of {digest} has another content")));
        }
        Ok(bytes.into())
    }
}

impl BlobSource for BlobFolder {
    fn name(&self) -> String {
        self.0.display().to_string()
    }

    fn has(&self, digest: &Digest) -> bool {
        self.path(digest).is_file()
    }

    fn blob_from(&self, digest: &Digest, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut file = File::open(self.path(digest))?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Box::new(file))
    }
}
