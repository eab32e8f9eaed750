//! Brings every blob of a lock into the store, verified, what a create needs first before the rest.

use futures::{StreamExt, stream};
use kubexm_spec::Lock;
use kubexm_spec::event::EventKind;
use kubexm_spec::lock::Content;

use crate::arrivals::Arrivals;
use crate::base::Base;
use crate::origins::{Origins, file, image};
use crate::resolve::{Candidates, Resolution};
use crate::{BuildError, Report};

/// Fetches what neither the store nor the base holds. All failures are told, not only the first: the next run has one round
/// less. `arrivals` learns of each artifact that is whole.
pub async fn fetch(
    lock: &Lock,
    resolution: &Resolution,
    base: Option<&Base>,
    origins: &Origins,
    jobs: usize,
    arrivals: &Arrivals,
    report: Report<'_>,
) -> Result<(), BuildError> {
    let wanted = |digest: &kubexm_spec::Digest| !base.is_some_and(|base| base.has(digest));
    let blobs: std::collections::BTreeMap<_, _> = lock.items.iter().flat_map(|item| item.blobs()).collect();
    let total = blobs.iter().filter(|(digest, _)| wanted(digest)).map(|(_, size)| size).sum();
    let progress = crate::progress::Total::new("fetch", total, report);
    // Indexes and manifests were kept when they were locked; they stand before every layer and program, which need not wait for
    // the last image to be whole.
    arrivals.arrived(lock.items.iter().flat_map(|item| match &item.content {
        Content::Image { target, manifest, .. } => vec![target.digest, manifest.digest],
        Content::File { .. } => Vec::new(),
    }));
    let mut pairs: Vec<_> = lock.items.iter().zip(&resolution.items).collect();
    // In the order in which they are packed.
    pairs.sort_by_key(|(_, resolved)| resolved.requirement.stage);
    let failures: Vec<BuildError> = stream::iter(pairs)
        .map(|(item, resolved)| {
            let progress = &progress;
            async move {
                let result = match &resolved.candidates {
                    Candidates::File { file: candidates, .. } => {
                        file::fetch(item, candidates, &wanted, origins, progress).await
                    }
                    Candidates::Image(candidates) => image::fetch(item, candidates, &wanted, origins, progress).await,
                    // Local artifacts were copied into the store when they were locked.
                    Candidates::Local => Ok(()),
                };
                if result.is_ok() {
                    progress.item_done(item);
                    arrivals.arrived(item.blobs().into_iter().map(|(digest, _)| digest));
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
    Ok(())
}
