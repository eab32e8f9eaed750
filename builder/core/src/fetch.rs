//! Lock → Fetched: every blob of the lock is in the store, verified.

use futures::{StreamExt, stream};
use kubexm_spec::Lock;
use kubexm_spec::event::EventKind;
use kubexm_transport::Store;

use crate::origins::{Origins, file, image};
use crate::resolve::{Candidates, Resolution};
use crate::{BuildError, Report};

/// A lock whose every blob is in the store.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The lock.
    pub lock: Lock,
    /// Where the blobs are.
    pub store: Store,
}

/// Fetches what the store does not hold yet. All failures are told, not only the first: the next run has one round less.
pub async fn fetch(
    lock: Lock,
    resolution: &Resolution,
    origins: &Origins,
    jobs: usize,
    report: Report<'_>,
) -> Result<Fetched, BuildError> {
    let total = total(&lock);
    let progress = crate::progress::Total::new("fetch", total, report);
    let pairs: Vec<_> = lock.items.iter().zip(&resolution.items).collect();
    let failures: Vec<BuildError> = stream::iter(pairs)
        .map(|(item, resolved)| {
            let progress = &progress;
            async move {
                let result = match &resolved.candidates {
                    Candidates::File { file: candidates, .. } => file::fetch(item, candidates, origins, progress).await,
                    Candidates::Image(candidates) => image::fetch(item, candidates, origins, progress).await,
                    // Local artifacts were copied into the store when they were locked.
                    Candidates::Local => Ok(()),
                };
                if result.is_ok() {
                    progress.item_done(item);
                }
                result.err()
            }
        })
        .buffer_unordered(jobs.max(1))
        .filter_map(|failure| async { failure })
        .collect()
        .await;
    if !failures.is_empty() {
        return Err(BuildError::from_many(failures));
    }
    report(EventKind::Note { text: format!("{} artifacts are in the cache", lock.items.len()) });
    Ok(Fetched { lock, store: origins.store.clone() })
}

fn total(lock: &Lock) -> u64 {
    let blobs: std::collections::BTreeMap<_, _> = lock.items.iter().flat_map(|item| item.blobs()).collect();
    blobs.values().sum()
}
