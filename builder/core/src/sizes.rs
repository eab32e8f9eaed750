//! How much a build would fetch: sizes known locally, and sizes reported by origins.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use kubexm_manifests::Requirement;
use kubexm_manifests::requirements::Source;
use kubexm_spec::{Lock, Platform};
use kubexm_transport::{Registry, Store};

use crate::origins::installer::Installers;
use crate::origins::{Origins, image};
use crate::probe;
use crate::resolve::{Candidates, Resolution, Resolved};

/// The parts of one artifact: name (a digest where it is known) and bytes. Parts of two artifacts with one name are one blob.
pub type Parts = BTreeMap<String, u64>;

/// Bytes of one artifact.
pub fn bytes(parts: &Parts) -> u64 {
    parts.values().sum()
}

/// Bytes of several, shared parts once.
pub fn total<'a>(all: impl IntoIterator<Item = &'a Parts>) -> u64 {
    let once: BTreeMap<&String, u64> = all.into_iter().flatten().map(|(name, bytes)| (name, *bytes)).collect();
    once.values().sum()
}

/// Sizes from lock, catalogue, cache and this machine's files, in the resolution's order.
pub fn known(
    resolution: &Resolution,
    locked: Option<&Lock>,
    store: Option<&Store>,
    installers: &Installers,
) -> Vec<Option<Parts>> {
    resolution.items.iter().map(|resolved| of_one(&resolved.requirement, locked, store, installers)).collect()
}

fn of_one(
    needed: &Requirement,
    locked: Option<&Lock>,
    store: Option<&Store>,
    installers: &Installers,
) -> Option<Parts> {
    if let Some(item) = locked.and_then(|lock| lock.find(&needed.key, needed.platform)) {
        return Some(item.blobs().into_iter().map(|(digest, size)| (digest.to_string(), size)).collect());
    }
    let file = |path: &std::path::Path| Some(one(needed, None, std::fs::metadata(path).ok()?.len()));
    match &needed.source {
        Source::File { sha256, size, .. } => {
            let digest = sha256.as_ref();
            let size = size.or_else(|| store?.size(digest?));
            Some(one(needed, digest.map(ToString::to_string), size?))
        }
        Source::LocalFile { path } => file(path),
        Source::Chart { .. } | Source::LocalYaml { .. } => None,
        Source::Installer => file(installers.path(needed.platform.unwrap_or(Platform::LINUX_AMD64)).ok()?),
        Source::Image { .. } | Source::LocalImage { .. } => None,
    }
}

fn one(needed: &Requirement, digest: Option<String>, size: u64) -> Parts {
    let platform = needed.platform.map(|platform| platform.to_string()).unwrap_or_default();
    Parts::from([(digest.unwrap_or_else(|| format!("{} {platform}", needed.key)), size)])
}

/// Asks origins for what is not known: files by HEAD, images by their manifests. Without an answer a size stays
/// unknown.
pub async fn asked(
    resolution: &Resolution,
    known: Vec<Option<Parts>>,
    origins: &Origins,
    jobs: usize,
) -> Vec<Option<Parts>> {
    stream::iter(resolution.items.iter().zip(known))
        .map(|(resolved, known)| async move {
            match known {
                Some(parts) => Some(parts),
                None => ask(resolved, origins).await,
            }
        })
        .buffered(jobs.max(1))
        .collect()
        .await
}

async fn ask(resolved: &Resolved, origins: &Origins) -> Option<Parts> {
    let needed = &resolved.requirement;
    match (&resolved.candidates, &needed.source) {
        (Candidates::File { file, .. }, Source::File { sha256, .. }) => {
            for candidate in file {
                if let Ok(Some(size)) = probe::file(&needed.key, candidate, origins).await {
                    return Some(one(needed, sha256.map(|digest| digest.to_string()), size));
                }
            }
            None
        }
        (Candidates::Image(candidates), Source::Image { reference, digest }) => {
            let platform = needed.platform.unwrap_or(Platform::LINUX_AMD64);
            let (_, tag) = image::split(reference);
            let found = origins.registry.resolve(candidates, tag, *digest, platform).await.ok()?;
            let blobs = found.blobs().into_iter().chain([found.target, found.manifest]);
            Some(blobs.map(|blob| (blob.digest.to_string(), blob.size)).collect())
        }
        _ => None,
    }
}
