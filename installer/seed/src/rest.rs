//! A delta whose rest is in the registry: documents that it leaves out are read there, blobs are left where they are.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use kubexm_archive::Bundle;
use kubexm_spec::lock::Content;
use kubexm_spec::{Digest, Reference};

use crate::connection::{AT_ONCE, Registry};
use crate::error::SeedError;
use crate::lock::lock;
use crate::naming::Naming;

/// Manifests and indexes by digest.
pub type Rest = BTreeMap<Digest, Bytes>;

/// Reads what the delta leaves out of its images' documents. What the registry does not have is not in the answer.
pub async fn rest(registry: &Registry, bundle: &Bundle, naming: &Naming) -> Result<Rest, SeedError> {
    let lock = lock(bundle)?;
    let mut wanted: BTreeSet<(String, Digest)> = BTreeSet::new();
    for item in &lock.items {
        let Content::Image { reference, target, manifest, referrers, .. } = &item.content else { continue };
        let Some(image) = Reference::read(reference) else { continue };
        let repository = naming.image(&image)?;
        let documents = [target, manifest].into_iter().chain(referrers.iter().map(|one| &one.manifest));
        let left_out = documents.map(|one| one.digest).filter(|digest| !bundle.has_blob(digest));
        wanted.extend(left_out.map(|digest| (repository.clone(), digest)));
    }
    stream::iter(wanted)
        .map(|(repository, digest)| async move {
            let from = registry.repository(&repository, &[]).await?;
            let found = from.manifest(&digest.to_string()).await;
            let found = found.map_err(|e| SeedError::registry("read", from.place(), e))?;
            Ok::<_, SeedError>(found.map(|raw| (digest, Bytes::from(raw.bytes))))
        })
        .buffer_unordered(AT_ONCE)
        .try_filter_map(|found| async move { Ok(found) })
        .try_collect()
        .await
}
