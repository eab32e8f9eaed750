//! Package files into the store: side by side, by size and sha256, any of several addresses.

use futures::{StreamExt, stream};
use kubexm_spec::Digest;
use kubexm_transport::{FileCandidate, HttpClient, Store, Want};

use super::PackagesError;
use crate::Report;
use crate::progress::Total;

/// A package file that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// For people: `socat 1.7.4.4-2 amd64`.
    pub name: String,
    /// Of the file, as its index says.
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
    /// Where it may be had, the best first.
    pub candidates: Vec<FileCandidate>,
}

/// Brings files into the store, at most `jobs` at a time. All failures are told, not only the first.
pub async fn fetch(
    files: &[File],
    http: &HttpClient,
    store: &Store,
    jobs: usize,
    report: Report<'_>,
) -> Result<(), PackagesError> {
    let total = &Total::new("packages", files.iter().map(|file| file.size).sum(), 0, report);
    let failed: Vec<PackagesError> = stream::iter(files)
        .map(|file| async move {
            // A page in the place of a package is told as such.
            let want = Want { digest: Some(file.digest), size: Some(file.size), refuse_html: true };
            let told = |done: u64, _: Option<u64>| total.at(&file.digest, done);
            let fetched = http.fetch(&file.candidates, &want, store, &told).await;
            fetched
                .map(drop)
                .map_err(|source| PackagesError::Fetch { repository: file.name.clone(), source: Box::new(source) })
        })
        .buffer_unordered(jobs.max(1))
        .filter_map(|result| async { result.err() })
        .collect()
        .await;
    if failed.is_empty() { Ok(()) } else { Err(PackagesError::from_many(failed)) }
}
