//! How blobs are sent, and uploads that another program of ours may resume.

use std::sync::atomic::AtomicBool;

use kubexm_spec::Digest;

use super::pace::Pace;

/// Bytes of a chunk unless said otherwise.
pub(super) const CHUNK: u64 = 8 << 20;

/// An upload that a registry keeps open (distribution-spec 1.1, "Pushing a blob in chunks").
#[derive(Clone, PartialEq, Eq)]
pub struct OpenUpload {
    /// Where it is resumed. It may hold a signature that lets anybody write: it belongs into no log.
    pub url: String,
    /// Bytes that the registry has confirmed.
    pub offset: u64,
}

impl std::fmt::Debug for OpenUpload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenUpload").field("offset", &self.offset).finish_non_exhaustive()
    }
}

/// Remembers open uploads beyond the life of a program, by `registry/repository` and digest.
pub trait OpenUploads: Send + Sync {
    /// The upload of a blob that was left open.
    fn known(&self, place: &str, digest: &Digest) -> Option<OpenUpload>;
    /// The upload of a blob came so far.
    fn note(&self, place: &str, digest: &Digest, upload: OpenUpload);
    /// The blob is there: nothing is to be resumed.
    fn forget(&self, place: &str, digest: &Digest);
}

/// How a blob is sent.
#[derive(Clone, Copy)]
pub struct PushOptions<'a> {
    /// Repositories of the same registry that it is mounted from, in this order.
    pub mount_from: &'a [String],
    /// Bytes of a chunk. A blob of no more goes up in one request.
    pub chunk: u64,
    /// Gives their size instead, by how fast the registry was.
    pub pace: Option<&'a Pace>,
    /// Where open uploads are remembered; nowhere when none.
    pub uploads: Option<&'a dyn OpenUploads>,
    /// Set to end after the chunk that is on its way; the upload stays open.
    pub stop: Option<&'a AtomicBool>,
}

impl Default for PushOptions<'_> {
    fn default() -> Self {
        Self { mount_from: &[], chunk: CHUNK, pace: None, uploads: None, stop: None }
    }
}
