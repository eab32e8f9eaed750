//! Care of the cache that builds share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kubexm_spec::{Digest, ExitCode};
use kubexm_transport::gc::Limits;
use serde::Serialize;

use crate::session::{Session, SessionError};

/// What goes where no limit is named: what no build has used for so long.
const MAX_AGE: Duration = Duration::from_secs(30 * 86_400);

/// What was removed, or would be.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Collected {
    schema: &'static str,
    pub dry_run: bool,
    pub removed: Vec<Blob>,
    /// With unfinished files.
    pub removed_bytes: u64,
    pub unfinished: Count,
    pub kept: Count,
    /// Of what is kept, what a running build uses.
    pub in_use: Count,
}

#[derive(Debug, Serialize)]
pub struct Blob {
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
}

/// Files and their bytes.
#[derive(Debug, Serialize)]
pub struct Count {
    pub count: usize,
    pub bytes: u64,
}

/// What hashing every blob again has found.
#[derive(Debug, Serialize)]
pub struct Verified {
    schema: &'static str,
    pub ok: bool,
    pub whole: Count,
    /// Removed.
    pub damaged: Vec<Digest>,
    /// Files that are no blobs, left alone.
    pub strange: Vec<PathBuf>,
}

/// Removes what was not used for `max_age`, and the least recently used until the blobs take no more than `max_size` bytes;
/// without both, what was not used for 30 days.
pub fn collect(
    session: &Session,
    cache: Option<&Path>,
    max_age: Option<Duration>,
    max_size: Option<u64>,
    dry_run: bool,
) -> Result<Collected, SessionError> {
    let age = max_age.or(max_size.is_none().then_some(MAX_AGE));
    let done = session.store_there(cache)?.collect(&Limits { age, size: max_size, dry_run })?;
    let bytes: u64 = done.removed.iter().map(|(_, size)| size).sum();
    Ok(Collected {
        schema: "kubexm.io/cache-gc/v1",
        dry_run,
        removed: done.removed.into_iter().map(|(digest, size)| Blob { digest, size }).collect(),
        removed_bytes: bytes + done.unfinished.1,
        unfinished: count(done.unfinished),
        kept: count(done.kept),
        in_use: count(done.in_use),
    })
}

/// Hashes every blob, and removes those that are damaged.
pub fn verify(session: &Session, cache: Option<&Path>) -> Result<Verified, SessionError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let progress = |done, total| session.progress("verify", (done, Some(total)), "bytes");
    let checked = session.store_there(cache)?.check(threads, &progress)?;
    Ok(Verified {
        schema: "kubexm.io/cache-verify/v1",
        ok: checked.damaged.is_empty(),
        whole: count(checked.whole),
        damaged: checked.damaged,
        strange: checked.strange,
    })
}

impl Verified {
    /// How a program ends on it.
    pub const fn code(&self) -> ExitCode {
        if self.ok { ExitCode::Ok } else { ExitCode::Disk }
    }
}

const fn count((count, bytes): (usize, u64)) -> Count {
    Count { count, bytes }
}
