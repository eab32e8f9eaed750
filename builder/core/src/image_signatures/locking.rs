//! When images are locked, and when a lock is built: what is attached to them is fetched and checked.

use futures::{StreamExt, stream};
use kubexm_signing::image::{Image, ImagePolicy, SIGNATURE_LIMIT, check, is_signature};
use kubexm_spec::lock::{Content, Descriptor, LockItem, Referrer, SignatureCheck};
use kubexm_spec::{Lock, error_chain};
use kubexm_transport::Store;
use kubexm_transport::oci::MANIFEST_LIMIT;

use super::policy;
use crate::BuildError;
use crate::charts::Work;
use crate::difference::{Difference, changed};
use crate::locked::requirement_of;
use crate::origins::{Origins, image};
use crate::resolve::{Candidates, candidates};

/// The lock with what was found of each image; without rules in cluster.yaml, with nothing.
///
/// # Errors
/// Every image that is not signed as cluster.yaml demands.
pub async fn complete(work: &Work<'_>, mut lock: Lock, origins: &Origins, jobs: usize) -> Result<Lock, BuildError> {
    let policy = policy(work.cluster)?;
    let found = match &policy {
        Some(policy) => checked(policy, work, &lock, origins, jobs).await?,
        None => vec![None; lock.items.len()],
    };
    for (item, found) in lock.items.iter_mut().zip(found) {
        if let Content::Image { signed, .. } = &mut item.content {
            *signed = found.map(Box::new);
        }
    }
    Ok(lock)
}

/// Whether a lock says what is found now: a key that cluster.yaml no longer names vouches for nothing.
pub async fn check_locked(work: &Work<'_>, locked: &Lock, origins: &Origins, jobs: usize) -> Result<(), BuildError> {
    let now = complete(work, locked.clone(), origins, jobs).await?;
    let differences: Vec<Difference> =
        locked.items.iter().zip(&now.items).filter_map(|(locked, now)| difference(locked, now)).collect();
    if differences.is_empty() { Ok(()) } else { Err(BuildError::Drift(differences)) }
}

fn difference(locked: &LockItem, now: &LockItem) -> Option<Difference> {
    let signed = |item: &LockItem| match &item.content {
        Content::Image { signed, .. } => signed.as_deref().cloned(),
        Content::File { .. } => None,
    };
    let text = |check: &Option<SignatureCheck>| match check {
        None => String::new(),
        Some(check) => match &check.signature {
            Some(signature) => format!("{check}, rule {}, {}", check.rule, signature.manifest),
            None => check.to_string(),
        },
    };
    let (was, is) = (signed(locked), signed(now));
    (was != is).then(|| changed(locked, "signature", text(&was), text(&is), "cluster.yaml and the image give"))
}

async fn checked(
    policy: &ImagePolicy,
    work: &Work<'_>,
    lock: &Lock,
    origins: &Origins,
    jobs: usize,
) -> Result<Vec<Option<SignatureCheck>>, BuildError> {
    let results: Vec<_> = stream::iter(&lock.items)
        .map(|item| checked_item(policy, work, lock, item, origins))
        .buffered(jobs.max(1))
        .collect()
        .await;
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(check) => found.push(check),
            Err(error) => failures.push(error),
        }
    }
    if !origins.referrers && failures.iter().any(|error| matches!(error, BuildError::UnsignedImage(_))) {
        failures.insert(0, BuildError::ReferrersLeftOut);
    }
    if failures.is_empty() { Ok(found) } else { Err(BuildError::from_many(failures)) }
}

async fn checked_item(
    policy: &ImagePolicy,
    work: &Work<'_>,
    lock: &Lock,
    item: &LockItem,
    origins: &Origins,
) -> Result<Option<SignatureCheck>, BuildError> {
    let Some(image) = Image::of(&item.content) else { return Ok(None) };
    if policy.reads_signatures_of(image.reference) {
        fetch(work, lock, item, &image, origins).await?;
    }
    let store: &Store = &origins.store;
    let read = |wanted: &Descriptor| {
        let limit = if image::is_manifest(&wanted.media_type) { MANIFEST_LIMIT } else { SIGNATURE_LIMIT };
        store.read(&wanted.digest, limit).map_err(|error| error_chain(&error))
    };
    check(policy, &image, &read).map(Some).map_err(|unsigned| BuildError::UnsignedImage(Box::new(unsigned)))
}

/// Brings what a check reads into the store.
async fn fetch(
    work: &Work<'_>,
    lock: &Lock,
    item: &LockItem,
    locked: &Image<'_>,
    origins: &Origins,
) -> Result<(), BuildError> {
    let Some(requirement) = requirement_of(item, lock, work.requirements, work.catalogue) else { return Ok(()) };
    // What is on this machine is in the store already.
    let Candidates::Image(places) = candidates(&requirement, work.zone) else { return Ok(()) };
    let failed =
        |source| BuildError::Fetch { item: format!("{} ({})", item.key, locked.reference), source: Box::new(source) };
    let indexes = locked.blobs.iter().filter(|blob| image::is_manifest(&blob.media_type));
    let is_small = |blob: &&Descriptor| is_signature(&blob.media_type) && blob.size <= SIGNATURE_LIMIT;
    let of_referrer = |referrer: &'_ Referrer| -> Vec<Descriptor> {
        let layers: Vec<Descriptor> = referrer.blobs.iter().filter(is_small).cloned().collect();
        let manifest = (!layers.is_empty()).then(|| referrer.manifest.clone());
        manifest.into_iter().chain(layers).collect()
    };
    let attached = locked.referrers.iter().flat_map(of_referrer);
    for wanted in std::iter::once(locked.target).chain(indexes).cloned().chain(attached) {
        if !origins.store.holds(&wanted.digest, wanted.size).map_err(failed)? {
            image::fetch(&wanted, &places, origins, &|_, _| {}).await.map_err(failed)?;
        }
    }
    Ok(())
}
