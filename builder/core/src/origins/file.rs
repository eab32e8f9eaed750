//! Files over HTTP: programs and archives of the catalogue, and the user's `extraFiles` with a URL.

use kubexm_spec::{ArtifactKey, Digest};
use kubexm_transport::{FileCandidate, Progress, TransportError, Want, checksum, page_by_first_bytes};

use super::Origins;
use crate::BuildError;

/// Limit of a checksum file in bytes; the largest upstream publishes (`SHA256SUMS` of a release) has some kilobytes.
const CHECKSUM_LIMIT: u64 = 1 << 20;

/// What is known about a file before it is locked.
pub struct Wanted<'a> {
    pub key: &'a ArtifactKey,
    /// The name upstream gives the file.
    pub file_name: &'a str,
    /// Pinned digest.
    pub sha256: Option<Digest>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Upstream's own address of the checksum file.
    pub checksum_url: Option<&'a str>,
}

/// What a file was locked to.
pub struct Locked {
    /// Of the file.
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
    /// The digest is from a checksum file that a mirror served.
    pub only_a_mirror_answered: bool,
}

/// Digest and size of a file. What has no known size is fetched now: a HEAD may lie, the file cannot.
pub async fn lock(
    wanted: &Wanted<'_>,
    candidates: &[FileCandidate],
    checksums: &[FileCandidate],
    origins: &Origins,
) -> Result<Locked, BuildError> {
    let fail = |source| BuildError::Fetch { item: wanted.key.to_string(), source: Box::new(source) };
    let (digest, only_a_mirror_answered) = match wanted.sha256 {
        Some(digest) => (digest, false),
        None => published(wanted, checksums, origins).await?,
    };
    let locked = |size| Locked { digest, size, only_a_mirror_answered };
    if origins.http.is_offline() {
        let size = origins.store.size(&digest);
        let absent = || fail(TransportError::NotCached { what: format!("{} ({digest})", wanted.file_name) });
        return size.map(locked).ok_or_else(absent);
    }
    if let Some(size) = wanted.size {
        return Ok(locked(size));
    }
    if let Some(size) = origins.store.size(&digest) {
        return Ok(locked(size));
    }
    let want = Want { digest: Some(digest), refuse_html: refuse_html(wanted.key), ..Want::default() };
    let fetched = origins.http.fetch(candidates, &want, &origins.store, &|_, _| {}).await.map_err(fail)?;
    Ok(locked(fetched.size))
}

/// The digest that upstream publishes beside the file, from the first candidate that has it, and whether that was a mirror.
pub async fn published(
    wanted: &Wanted<'_>,
    checksums: &[FileCandidate],
    origins: &Origins,
) -> Result<(Digest, bool), BuildError> {
    let (mut tried, mut without): (_, Option<(String, bool)>) = (Vec::new(), None);
    if origins.http.is_offline() {
        return remembered(wanted, checksums, origins);
    }
    for candidate in checksums {
        match origins.http.get_small(candidate, CHECKSUM_LIMIT).await {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                if let Some(digest) = checksum::parse(&text, wanted.file_name) {
                    let failed = |source| BuildError::Fetch { item: wanted.key.to_string(), source: Box::new(source) };
                    origins.store.note(&checksum_key(candidate, wanted), &digest.to_string()).map_err(failed)?;
                    return Ok((digest, wanted.checksum_url.is_some_and(|url| url != candidate.url)));
                }
                // A mirror may answer everything with a page: the next one is asked, and a list counts more than a page.
                let is_page = page_by_first_bytes(&bytes).is_some();
                if without.as_ref().is_none_or(|(_, earlier)| *earlier && !is_page) {
                    without = Some((kubexm_transport::http::shown(&candidate.url), is_page));
                }
            }
            Err(error) => tried.push(error),
        }
    }
    if let Some((url, is_page)) = without {
        let (item, file_name) = (wanted.key.to_string(), wanted.file_name.to_owned());
        return Err(BuildError::NoChecksum { item, url, file_name, is_page });
    }
    let source = TransportError::AllFailed { what: format!("the checksum of {}", wanted.file_name), tried };
    Err(BuildError::Fetch { item: wanted.key.to_string(), source: Box::new(source) })
}

/// The digest that was published when it was last asked for.
fn remembered(
    wanted: &Wanted<'_>,
    checksums: &[FileCandidate],
    origins: &Origins,
) -> Result<(Digest, bool), BuildError> {
    let failed = |source| BuildError::Fetch { item: wanted.key.to_string(), source: Box::new(source) };
    for candidate in checksums {
        let recorded = origins.store.recorded(&checksum_key(candidate, wanted)).map_err(failed)?;
        if let Some(digest) = recorded.and_then(|text| text.parse().ok()) {
            return Ok((digest, wanted.checksum_url.is_some_and(|url| url != candidate.url)));
        }
    }
    Err(failed(TransportError::NotCached { what: format!("the checksum of {}", wanted.file_name) }))
}

/// Under which key the store notes what was published. Addresses may carry tokens: the store keeps keys as digests only.
fn checksum_key(candidate: &FileCandidate, wanted: &Wanted<'_>) -> String {
    format!("checksum {} {}", candidate.url, wanted.file_name)
}

/// Brings a file into the store, by digest and size in bytes.
pub async fn fetch(
    (digest, size): (Digest, u64),
    candidates: &[FileCandidate],
    refuse_html: bool,
    origins: &Origins,
    progress: &Progress<'_>,
) -> Result<(), TransportError> {
    let want = Want { digest: Some(digest), size: Some(size), refuse_html, ..Want::default() };
    origins.http.fetch(candidates, &want, &origins.store, progress).await.map(drop)
}

/// An extra file or a YAML add-on may well be a page or JSON; a program or a chart never is.
pub fn refuse_html(key: &ArtifactKey) -> bool {
    !matches!(key, ArtifactKey::ExtraFile(_) | ArtifactKey::Yaml(_))
}
