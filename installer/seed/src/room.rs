//! Whether the projects of a Harbor have room for what is missing, asked before the first upload: a quota that ends a push in the middle is
//! found out after gigabytes.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use kubexm_spec::Digest;

use crate::connection::{AT_ONCE, Registry};
use crate::error::SeedError;
use crate::look::Work;

/// Blobs that a project may lack, each with its size and the repositories there that want it.
type Missing<'a> = BTreeMap<Digest, (u64, Vec<&'a str>)>;

/// Refuses where a quota would not let all of it in. Registries that report no quota have room.
pub(crate) async fn room(registry: &Registry, work: &Work) -> Result<(), SeedError> {
    for missing in by_project(work).into_values() {
        let Some(&name) = missing.values().next().and_then(|(_, names)| names.first()) else { continue };
        let to = registry.repository(name, &[]).await?;
        let Some(quota) = to.quota().await else { continue };
        let left = quota.limit.saturating_sub(quota.used);
        let bytes = |blobs: &Missing<'_>| blobs.values().fold(0_u64, |sum, (size, _)| sum.saturating_add(*size));
        if bytes(&missing) <= left {
            continue;
        }
        // Some of it may be there, of a push that was interrupted. A project has each blob once, in whichever of its repositories.
        let really: Missing<'_> = stream::iter(missing)
            .map(|(digest, (size, names))| async move {
                for name in &names {
                    let to = registry.repository(name, &[]).await?;
                    if to.has_blob(&digest).await.map_err(|e| SeedError::registry("read", to.place(), e))? {
                        return Ok(None);
                    }
                }
                Ok::<_, SeedError>(Some((digest, (size, names))))
            })
            .buffer_unordered(AT_ONCE)
            .try_filter_map(|one| async move { Ok(one) })
            .try_collect()
            .await?;
        let missing = bytes(&really);
        if missing > left {
            let registry = to.place().strip_suffix(name).unwrap_or_default().trim_end_matches('/').to_owned();
            return Err(SeedError::NoRoom { registry, quota, missing });
        }
    }
    Ok(())
}

/// By project, the first part of a repository's name.
fn by_project(work: &Work) -> BTreeMap<&str, Missing<'_>> {
    let mut all: BTreeMap<&str, Missing<'_>> = BTreeMap::new();
    for (digest, blob) in &work.blobs {
        for name in &blob.wanted_by {
            if blob.held_by.as_deref().map(project) != Some(project(name)) {
                let wanted = all.entry(project(name)).or_default().entry(*digest);
                wanted.or_insert_with(|| (blob.size, Vec::new())).1.push(name);
            }
        }
    }
    all
}

fn project(repository: &str) -> &str {
    repository.split('/').next().unwrap_or(repository)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::Source;
    use crate::look::BlobWork;

    #[test]
    fn a_blob_counts_once_in_each_project_that_lacks_it() {
        let blob = |size, wanted: &[&str], held: Option<&str>| BlobWork {
            size,
            source: Source::Bundle,
            wanted_by: wanted.iter().map(|name| (*name).to_owned()).collect(),
            held_by: held.map(str::to_owned),
        };
        let blobs = [
            (Digest::of("a"), blob(10, &["one/x", "one/y", "two/x"], None)),
            (Digest::of("b"), blob(5, &["one/y", "two/x"], Some("two/z"))),
        ];
        let work = Work { blobs: blobs.into(), ..Work::default() };
        let sums: BTreeMap<&str, u64> = by_project(&work)
            .into_iter()
            .map(|(project, missing)| (project, missing.values().map(|(size, _)| size).sum()))
            .collect();
        assert_eq!(sums, [("one", 15), ("two", 10)].into());
    }
}
