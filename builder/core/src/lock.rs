//! Resolution → Lock: digests and sizes of everything. What upstream publishes no digest or size of is fetched here.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use kubexm_manifests::Requirement;
use kubexm_manifests::requirements::{ChartSource, Source};
use kubexm_spec::event::EventKind;
use kubexm_spec::lock::{Content, LockItem, SCHEMA};
use kubexm_spec::{Digest, Lock, Platform, Trust};

use crate::origins::{Origins, chart, file, image, local};
use crate::resolve::{Candidates, Resolution, Resolved};
use crate::{BuildError, Report, remote_size};

/// Where the size of a file is from that the catalogue gives a digest of and no size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// The file is fetched: a build needs it anyway, and a HEAD may lie.
    Fetched,
    /// Sizes are requested by HEAD; where origins state none, or different ones, the file is fetched. A wrong size of
    /// one origin is found when the lock is built: the digest is what is trusted, and the lock is what is wrong then.
    Reported,
}

/// Locks every item, several at once; all failures are reported.
pub async fn lock(
    resolution: &Resolution,
    origins: &Origins,
    sizes: Sizes,
    jobs: usize,
    report: Report<'_>,
) -> Result<Lock, BuildError> {
    let total = resolution.items.len() as u64;
    let done = std::sync::atomic::AtomicU64::new(0);
    let mut results: Vec<(usize, Result<LockItem, BuildError>)> = stream::iter(longest_first(resolution, origins))
        .map(|(at, resolved)| {
            let done = &done;
            async move {
                let item = lock_item(resolved, origins, sizes).await;
                let done = 1 + done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                report(EventKind::Progress {
                    what: "lock".to_owned(),
                    done,
                    total: Some(total),
                    unit: "items".to_owned(),
                });
                (at, item)
            }
        })
        .buffer_unordered(jobs.max(1))
        .collect()
        .await;
    // Fetch pairs the lock's items with the resolution's.
    results.sort_unstable_by_key(|(at, _)| *at);
    let mut items = Vec::new();
    let mut failures = Vec::new();
    for (_, result) in results {
        match result {
            Ok(item) => items.push(item),
            Err(error) => failures.push(error),
        }
    }
    if !failures.is_empty() {
        return Err(BuildError::from_many(failures));
    }
    one_image_a_name(&items)?;
    Ok(Lock {
        schema: SCHEMA.to_owned(),
        name: resolution.name.clone(),
        kubernetes: resolution.kubernetes.clone(),
        zone: Some(resolution.zone.clone()),
        items,
        renderings: Vec::new(),
        packages: Vec::new(),
    })
}

/// In which order items are locked, each with its place: what others have to answer for, then files of this machine, the largest
/// first. Begun last, it would be hashed by one core while the others have nothing to do.
fn longest_first<'r>(resolution: &'r Resolution, origins: &Origins) -> Vec<(usize, &'r Resolved)> {
    let len = |resolved: &Resolved| match local::path_of(&resolved.requirement, origins) {
        Ok(Some(path)) => std::fs::metadata(path).map_or(0, |file| file.len()),
        _ => u64::MAX,
    };
    let mut order: Vec<(usize, &Resolved)> = resolution.items.iter().enumerate().collect();
    order.sort_by_cached_key(|(_, resolved)| std::cmp::Reverse(len(resolved)));
    order
}

/// A name stands for one thing in a bundle: index.json and the depot have one entry for it, whatever the platform.
pub(crate) fn one_image_a_name(items: &[LockItem]) -> Result<(), BuildError> {
    let mut seen: BTreeMap<&str, Digest> = BTreeMap::new();
    let mut failures = Vec::new();
    for item in items {
        let Content::Image { reference, target, .. } = &item.content else { continue };
        let first = *seen.entry(reference).or_insert(target.digest);
        if first != target.digest {
            failures.push(BuildError::TwoImages { reference: reference.clone(), first, second: target.digest });
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(BuildError::from_many(failures)) }
}

/// What must be on this machine is looked for before anything is fetched: a mistyped path must not show up after an
/// hour of fetching.
pub fn check_local(resolution: &Resolution, origins: &Origins) -> Result<(), BuildError> {
    let failures: Vec<BuildError> =
        resolution.items.iter().filter_map(|resolved| check_local_item(&resolved.requirement, origins).err()).collect();
    if failures.is_empty() { Ok(()) } else { Err(BuildError::from_many(failures)) }
}

/// The same for one item; what is not on this machine passes.
pub(crate) fn check_local_item(needed: &Requirement, origins: &Origins) -> Result<(), BuildError> {
    match &needed.source {
        Source::Installer => origins.installers.path(needed.platform.unwrap_or(Platform::LINUX_AMD64)).map(drop),
        _ => check_path(needed),
    }
}

/// Files and folders of the operator that are needed, which a dry run looks for too.
pub fn check_paths(resolution: &Resolution) -> Result<(), BuildError> {
    let failures: Vec<BuildError> =
        resolution.items.iter().filter_map(|resolved| check_path(&resolved.requirement).err()).collect();
    if failures.is_empty() { Ok(()) } else { Err(BuildError::from_many(failures)) }
}

fn check_path(needed: &Requirement) -> Result<(), BuildError> {
    match &needed.source {
        Source::LocalFile { path } => local::check(path),
        Source::LocalImage { layout, .. } => image::check_local(&needed.key.to_string(), layout),
        Source::Chart { chart: ChartSource::Path { path } } | Source::LocalYaml { path } => {
            chart::check_local(&needed.key, path)
        }
        Source::File { .. } | Source::Image { .. } | Source::Chart { .. } | Source::Installer => Ok(()),
    }
}

/// Locks one item.
pub(crate) async fn lock_item(resolved: &Resolved, origins: &Origins, sizes: Sizes) -> Result<LockItem, BuildError> {
    let requirement = &resolved.requirement;
    let item = requirement.key.to_string();
    let mut trust = requirement.trust;
    let content = match (&requirement.source, &resolved.candidates) {
        (
            Source::File { file_name, sha256, size, checksum_url, .. },
            Candidates::File { file: candidates, checksum },
        ) => {
            let size = match (*size, sizes) {
                (None, Sizes::Reported) => remote_size::size(sha256.as_ref(), candidates, origins).await,
                (size, _) => size,
            };
            let wanted = file::Wanted {
                key: &requirement.key,
                file_name,
                sha256: *sha256,
                size,
                checksum_url: checksum_url.as_deref(),
            };
            let locked = file::lock(&wanted, candidates, checksum, origins).await?;
            if locked.only_a_mirror_answered {
                trust = Trust::Mirror;
            }
            Content::File { file_name: file_name.clone(), digest: locked.digest, size: locked.size }
        }
        (Source::Image { reference, digest }, Candidates::Image(candidates)) => {
            let locked = image::lock(&item, reference, *digest, requirement.platform, candidates, origins).await?;
            if locked.only_a_mirror_answered && digest.is_none() {
                trust = Trust::Mirror;
            }
            locked.content
        }
        (Source::Chart { chart: source }, candidates) => {
            let locked = chart::lock(&requirement.key, source, candidates, origins).await?;
            trust = locked.trust;
            let file_name = kubexm_manifests::chart::file_name(&requirement.key);
            Content::File { file_name, digest: locked.digest, size: locked.size }
        }
        (Source::LocalYaml { path }, _) => {
            let locked = chart::lock_yaml(&requirement.key, path, origins).await?;
            let file_name = kubexm_manifests::chart::file_name(&requirement.key);
            Content::File { file_name, digest: locked.digest, size: locked.size }
        }
        (Source::LocalFile { path }, _) => {
            let (digest, size) = local::lock(path, origins).await?;
            Content::File { file_name: local::file_name(requirement), digest, size }
        }
        (Source::LocalImage { reference, layout }, _) => {
            image::lock_local(&item, reference, layout, requirement.platform, origins).await?
        }
        (Source::Installer, _) => {
            let platform = requirement.platform.unwrap_or(Platform::LINUX_AMD64);
            let (digest, size) = local::lock(origins.installers.path(platform)?, origins).await?;
            Content::File { file_name: local::file_name(requirement), digest, size }
        }
        _ => return Err(BuildError::Worker(format!("{item} was resolved to candidates of another kind"))),
    };
    Ok(LockItem {
        key: requirement.key.clone(),
        version: requirement.version.clone(),
        platform: requirement.platform,
        trust,
        sources: resolved.addresses(),
        content,
    })
}
