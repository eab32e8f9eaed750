//! A build from a lock: what is packed is what the lock pins, byte for byte, and every difference is reported.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use kubexm_manifests::{Catalogue, Requirement, Requirements, Zone};
use kubexm_spec::lock::{Content, Descriptor, LockItem, Referrer};
use kubexm_spec::{ArtifactKey, Digest, Lock};

use crate::base::Base;
use crate::difference::{Difference, changed};
use crate::disk;
use crate::drift::{self, drift, of_renderings};
use crate::origins::{Origins, image, local};
use crate::resolve::{Candidates, Resolution, Resolved, candidates};
use crate::{BuildError, charts, lock, packages};

/// The sources of a lock's items in this zone, in the lock's order; refused when cluster.yaml and catalogue need
/// anything else, or when the lock says what it could not have been made with. The places that the lock names are not asked, and not
/// carried: digests decide what is built, and the zone at hand where it is fetched. Pure.
pub fn resolve(
    requirements: &Requirements,
    locked: &Lock,
    catalogue: &Catalogue,
    zone: &Zone,
) -> Result<Resolution, BuildError> {
    let mut differences = drift(requirements, locked);
    differences.extend(of_renderings(locked));
    let mut items = Vec::new();
    for item in &locked.items {
        let needed = requirements.items.iter().find(|r| r.key == item.key && r.platform == item.platform);
        let requirement = match needed {
            Some(needed) => needed.clone(),
            None => match known_by_the_lock(item, locked, catalogue) {
                Some(requirement) => {
                    differences.extend(drift::changes(&requirement, item));
                    requirement
                }
                // Reported by drift: nothing needs it.
                None => continue,
            },
        };
        let candidates = candidates(&requirement, zone);
        items.push(Resolved { requirement, candidates });
    }
    if !differences.is_empty() {
        return Err(BuildError::Drift(differences));
    }
    let (name, kubernetes, zone) = (locked.name.clone(), locked.kubernetes.clone(), zone.name.clone());
    Ok(Resolution { name, kubernetes, zone, items })
}

/// The same lock with the sources of this zone and the same digests. Items that nothing needs are unchanged. Pure.
#[must_use]
pub fn with_places(requirements: &Requirements, locked: &Lock, catalogue: &Catalogue, zone: &Zone) -> Lock {
    let mut new = Lock { zone: Some(zone.name.clone()), ..locked.clone() };
    for item in &mut new.items {
        if let Some(requirement) = requirement_of(item, locked, requirements, catalogue) {
            item.sources = addresses(&requirement, zone);
        }
    }
    new
}

/// What an item was locked for; none where nothing needs it.
pub(crate) fn requirement_of(
    item: &LockItem,
    locked: &Lock,
    requirements: &Requirements,
    catalogue: &Catalogue,
) -> Option<Requirement> {
    let needed = requirements.items.iter().find(|r| r.key == item.key && r.platform == item.platform);
    needed.cloned().or_else(|| known_by_the_lock(item, locked, catalogue))
}

/// Where a zone leads, as a lock has it.
fn addresses(requirement: &Requirement, zone: &Zone) -> Vec<String> {
    Resolved { candidates: candidates(requirement, zone), requirement: requirement.clone() }.addresses()
}

/// What only the lock knows of: an image of a chart's rendering, and a package.
fn known_by_the_lock(item: &LockItem, lock: &Lock, catalogue: &Catalogue) -> Option<Requirement> {
    match &item.key {
        ArtifactKey::Package { .. } => packages::needed(item, lock),
        ArtifactKey::ChartImage(name) => {
            let because = "a chart's rendering names it".to_owned();
            Some(charts::needed_image(name, item.platform, because, catalogue))
        }
        _ => None,
    }
}

/// Compares what is on this machine with the lock, files as far as it goes without reading them, and what the lock says of each image against
/// the image's own index and manifests: a line that a merge has lost would be missed inside the gap only. What origins send is
/// compared with the lock when it comes. Every difference is reported, and every failure.
pub async fn prepare(
    locked: &Lock,
    resolution: &Resolution,
    base: Option<&Base>,
    origins: &Origins,
    jobs: usize,
) -> Result<(), BuildError> {
    let (mut differences, mut failures) = (Vec::new(), Vec::new());
    let mut items = stream::iter(locked.items.iter().zip(&resolution.items))
        .map(|(item, resolved)| found(item, resolved, base, origins))
        .buffered(jobs.max(1));
    while let Some(found) = items.next().await {
        match found {
            Ok(more) => differences.extend(more),
            Err(error) => failures.push(error),
        }
    }
    if !differences.is_empty() {
        failures.push(BuildError::Drift(differences));
    }
    if failures.is_empty() { Ok(()) } else { Err(BuildError::from_many(failures)) }
}

/// What is otherwise than the lock says, as far as that can be known before anything is fetched.
async fn found(
    item: &LockItem,
    resolved: &Resolved,
    base: Option<&Base>,
    origins: &Origins,
) -> Result<Vec<Difference>, BuildError> {
    if is_expected(item, resolved, base, origins)? {
        return Ok(Vec::new());
    }
    if is_brought(item, resolved, origins)? {
        let now = lock::lock_item(resolved, origins, lock::Sizes::Fetched).await?;
        return Ok(content_changes(item, &now.content, "this machine has"));
    }
    let Candidates::Image(candidates) = &resolved.candidates else { return Ok(Vec::new()) };
    let now = image::from_digest(item, candidates, origins).await?;
    Ok(now.map(|now| content_changes(item, &now, "the image itself has")).unwrap_or_default())
}

/// What packing found of a file of this machine, as the difference from the lock that it is.
pub fn of_local_files(locked: &Lock, resolution: &Resolution, error: BuildError) -> BuildError {
    let BuildError::LocalChanged { path, expected } = &error else { return error };
    let mut items = locked.items.iter().zip(&resolution.items);
    let is_it = |item: &LockItem| matches!(&item.content, Content::File { digest, .. } if digest == expected);
    let found = items.find(|(item, resolved)| is_it(item) && matches!(resolved.candidates, Candidates::Local));
    match (found, disk::digest(path)) {
        (Some((item, _)), Ok(now)) if now != *expected => {
            let now = now.to_string();
            BuildError::Drift(vec![changed(item, "digest", expected.to_string(), now, "this machine has")])
        }
        _ => error,
    }
}

/// Whether a file of this machine can be what the lock says, so that it is read only when it is packed, and compared then. What a
/// base has is not packed, and is compared here.
fn is_expected(
    item: &LockItem,
    resolved: &Resolved,
    base: Option<&Base>,
    origins: &Origins,
) -> Result<bool, BuildError> {
    let Content::File { file_name, digest, size } = &item.content else { return Ok(false) };
    let Some(path) = local::path_of(&resolved.requirement, origins)? else { return Ok(false) };
    let is_named = *file_name == local::file_name(&resolved.requirement);
    let packed = !base.is_some_and(|base| base.has(digest));
    Ok(is_named && packed && local::expect(path, *digest, *size, origins)?)
}

/// Whether an item is brought here before anything is fetched: what is on this machine, and a chart that is missing in
/// the cache, whose address only the index of its repository has.
fn is_brought(item: &LockItem, resolved: &Resolved, origins: &Origins) -> Result<bool, BuildError> {
    match (&resolved.candidates, &item.content) {
        (Candidates::Local, _) => Ok(true),
        (Candidates::Chart(_), Content::File { digest, size, .. }) => {
            let fail = |source| BuildError::Fetch { item: item.name(), source: Box::new(source) };
            Ok(!origins.store.holds(digest, *size).map_err(fail)?)
        }
        _ => Ok(false),
    }
}

/// What a lock says of an image's blobs beside their digests.
const BESIDE: [&str; 2] = ["sizes", "media types"];

fn content_changes(item: &LockItem, now: &Content, by: &'static str) -> Vec<Difference> {
    let parts = |content: &Content| -> Vec<(&'static str, String)> {
        match content {
            Content::File { file_name, digest, size } => {
                vec![("name", file_name.clone()), ("digest", digest.to_string()), ("size", size.to_string())]
            }
            Content::Image { reference, target, manifest, blobs, referrers, signed: _ } => {
                let attached = || referrers.iter().flat_map(Referrer::descriptors);
                let types: Vec<&str> = blobs.iter().map(|blob| blob.media_type.as_str()).collect();
                vec![
                    ("name", reference.clone()),
                    ("digest", target.digest.to_string()),
                    ("manifest", manifest.digest.to_string()),
                    ("blobs", digests(blobs.iter())),
                    ("attached", digests(attached())),
                    ("sizes", sizes([target, manifest].into_iter().chain(blobs).chain(attached()))),
                    ("media types", types.join(" ")),
                ]
            }
        }
    };
    let (old, new) = (parts(&item.content), parts(now));
    let mut others: Vec<_> = old.into_iter().zip(new).filter(|((_, locked), (_, now))| locked != now).collect();
    // Of other blobs they say nothing more.
    if others.iter().any(|((field, _), _)| !BESIDE.contains(field)) {
        others.retain(|((field, _), _)| !BESIDE.contains(field));
    }
    others.into_iter().map(|((field, locked), (_, now))| changed(item, field, locked, now, by)).collect()
}

fn digests<'a>(all: impl Iterator<Item = &'a Descriptor>) -> String {
    let all: Vec<String> = all.map(|blob| blob.digest.to_string()).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(" ") }
}

fn sizes<'a>(all: impl Iterator<Item = &'a Descriptor>) -> String {
    let all: Vec<String> = all.map(|blob| blob.size.to_string()).collect();
    all.join(" ")
}

/// A tag that no longer points at the locked digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// With its tag.
    pub reference: String,
    /// What the lock has, and the bundle gets.
    pub locked: Digest,
    /// What the tag is now.
    pub now: Digest,
}

/// Tags that were moved since they were locked. Registries that do not answer are skipped: the lock has the digests,
/// and they are what is fetched.
pub async fn moved_tags(locked: &Lock, resolution: &Resolution, origins: &Origins, jobs: usize) -> Vec<Moved> {
    let mut tags = BTreeMap::new();
    for (item, resolved) in locked.items.iter().zip(&resolution.items) {
        let (Content::Image { reference, target, .. }, Candidates::Image(candidates)) =
            (&item.content, &resolved.candidates)
        else {
            continue;
        };
        let (_, tag) = image::split(reference);
        if tag.parse::<Digest>().is_err() {
            tags.entry(reference.as_str()).or_insert((target.digest, tag, candidates));
        }
    }
    stream::iter(tags)
        .map(|(reference, (locked, tag, candidates))| async move {
            for candidate in candidates {
                if let Ok(now) = origins.registry.digest_of(candidate, tag).await {
                    return (now != locked).then(|| Moved { reference: reference.to_owned(), locked, now });
                }
            }
            None
        })
        .buffered(jobs.max(1))
        .filter_map(|moved| async { moved })
        .collect()
        .await
}
