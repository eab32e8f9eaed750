//! Sizes that origins report for files without sending them, and when a lock may record them.

use std::time::Duration;

use kubexm_spec::Digest;
use kubexm_transport::{FileCandidate, TransportError};

use crate::origins::{Origins, file};

/// How long to wait for a second source to confirm the size of the first: a lock can be made without it.
const SECOND_WITHIN: Duration = Duration::from_secs(3);

/// The size in bytes that may be trusted of a file before it is fetched: that of the cache; else the size that two
/// sources report alike, or that of one source where no other reports one. None where they differ: then the file is
/// fetched, and its digest decides.
pub(crate) async fn size(sha256: Option<&Digest>, candidates: &[FileCandidate], origins: &Origins) -> Option<u64> {
    if let Some(size) = sha256.and_then(|digest| origins.store.size(digest)) {
        return Some(size);
    }
    let mut first = None;
    for candidate in candidates {
        let reported = match first {
            None => head(candidate, origins).await,
            Some(_) => tokio::time::timeout(SECOND_WITHIN, head(candidate, origins)).await.ok().flatten(),
        };
        match (first, reported) {
            (_, None) => {}
            (None, reported) => first = reported,
            (Some(first), Some(reported)) => return (first == reported).then_some(first),
        }
    }
    first
}

/// The size that one source reports; none for an HTML page, JSON or XML, whatever the file is: portals and mirrors
/// answer so to everything, with 200, and a file that is such a text itself is small enough to be fetched.
async fn head(candidate: &FileCandidate, origins: &Origins) -> Option<u64> {
    let head = origins.http.head(candidate).await.ok()?;
    let page = head.content_type.as_deref().and_then(kubexm_transport::page_by_content_type);
    if page.is_some() { None } else { head.size.filter(|size| *size > 0) }
}

/// Asks for a file once more where its size was not as locked, in the size that each place has: that is the size which the lock
/// should have, if the digest is right. In bytes; or what each place did.
pub(crate) async fn as_it_is(
    digest: Digest,
    error: TransportError,
    candidates: &[FileCandidate],
    refuse_html: bool,
    origins: &Origins,
) -> Result<u64, TransportError> {
    let TransportError::AllFailed { what, tried } = error else { return Err(error) };
    let mut failed = Vec::new();
    for error in tried {
        let (origin, found) = match &error {
            TransportError::WrongSize { origin, found, .. } => (origin, *found),
            _ => {
                failed.push(error);
                continue;
            }
        };
        let there = candidates.iter().find(|candidate| kubexm_transport::http::shown(&candidate.url) == *origin);
        let again = match there {
            Some(there) => file::fetch((digest, found), std::slice::from_ref(there), refuse_html, origins, &|_, _| {}),
            None => {
                failed.push(error);
                continue;
            }
        };
        match again.await {
            Ok(()) => return Ok(found),
            Err(TransportError::AllFailed { tried, .. }) if !tried.iter().any(is_wrong_size) => failed.extend(tried),
            // An answer that does not tell its length: how long it is was not seen.
            Err(TransportError::AllFailed { .. }) => failed.push(error),
            Err(error) => return Err(error),
        }
    }
    Err(TransportError::AllFailed { what, tried: failed })
}

fn is_wrong_size(error: &TransportError) -> bool {
    matches!(error, TransportError::WrongSize { .. })
}
