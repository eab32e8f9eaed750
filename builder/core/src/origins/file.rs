//! Files over HTTP: programs and archives of the catalogue, and the user's `extraFiles` with a URL.

use kubexm_spec::lock::{Content, LockItem};
use kubexm_spec::{ArtifactKey, Digest};
use kubexm_transport::{FileCandidate, TransportError, Want, checksum};

use super::Origins;
use crate::BuildError;
use crate::build::Total;

/// Limit of a checksum file in bytes; the largest upstream publishes (`SHA256SUMS` of a release) has some kilobytes.
const CHECKSUM_LIMIT: u64 = 1 << 20;

/// What is known about a file before it is locked.
pub struct Wanted<'a> {
    /// The artifact's key.
    pub item: &'a str,
    /// The name upstream gives the file.
    pub file_name: &'a str,
    /// Pinned digest.
    pub sha256: Option<Digest>,
    /// Size in bytes.
    pub size: Option<u64>,
}

/// Digest and size of a file. What has no known size is fetched now: a HEAD may lie, the file cannot.
pub async fn lock(
    wanted: &Wanted<'_>,
    candidates: &[FileCandidate],
    checksums: &[FileCandidate],
    origins: &Origins,
) -> Result<(Digest, u64), BuildError> {
    let fail = |source| BuildError::Fetch { item: wanted.item.to_owned(), source: Box::new(source) };
    let digest = match wanted.sha256 {
        Some(digest) => digest,
        None => published(wanted, checksums, origins).await?,
    };
    if let Some(size) = wanted.size {
        return Ok((digest, size));
    }
    if let Some(size) = origins.store.size(&digest) {
        return Ok((digest, size));
    }
    let want = Want { digest: Some(digest), size: None, refuse_html: true };
    let fetched = origins.http.fetch(candidates, &want, &origins.store, &|_, _| {}).await.map_err(fail)?;
    Ok((fetched.digest, fetched.size))
}

/// The digest that upstream publishes beside the file, from the first candidate that has it.
async fn published(wanted: &Wanted<'_>, checksums: &[FileCandidate], origins: &Origins) -> Result<Digest, BuildError> {
    let mut tried = Vec::new();
    for candidate in checksums {
        match origins.http.get_small(candidate, CHECKSUM_LIMIT).await {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                return checksum::parse(&text, wanted.file_name).ok_or_else(|| BuildError::NoChecksum {
                    item: wanted.item.to_owned(),
                    url: candidate.url.clone(),
                    file_name: wanted.file_name.to_owned(),
                });
            }
            Err(error) => tried.push(error),
        }
    }
    let source = TransportError::AllFailed { what: format!("the checksum of {}", wanted.file_name), tried };
    Err(BuildError::Fetch { item: wanted.item.to_owned(), source: Box::new(source) })
}

/// Brings the file into the store.
pub async fn fetch(
    item: &LockItem,
    candidates: &[FileCandidate],
    origins: &Origins,
    total: &Total<'_>,
) -> Result<(), BuildError> {
    let Content::File { digest, size, .. } = &item.content else { return Ok(()) };
    // An extra file may well be a page or JSON; a program never is.
    let refuse_html = !matches!(item.key, ArtifactKey::ExtraFile(_));
    let want = Want { digest: Some(*digest), size: Some(*size), refuse_html };
    let name = digest.hex();
    origins
        .http
        .fetch(candidates, &want, &origins.store, &|done, _| total.at(&name, done))
        .await
        .map(drop)
        .map_err(|source| BuildError::Fetch { item: item.key.to_string(), source: Box::new(source) })
}
