//! OCI images: from registries, or from an OCI layout on this machine.

use std::path::Path;

use kubexm_spec::lock::{Content, Descriptor, LockItem, Referrer};
use kubexm_spec::{Digest, Platform};
use kubexm_transport::oci::Attached;
use kubexm_transport::{ImageCandidate, Layout, Progress, Registry, ResolvedImage, Store, TransportError};

use super::Origins;
use crate::BuildError;

/// An image that was resolved.
pub struct Locked {
    /// Index, manifest, config and layers by digest.
    pub content: Content,
    /// Only a mirror reported what the tag points at.
    pub only_a_mirror_answered: bool,
}

/// Asks what the reference points at, and keeps the small blobs (index, manifest, config) in the store.
pub async fn lock(
    item: &str,
    reference: &str,
    want: Option<Digest>,
    platform: Option<Platform>,
    candidates: &[ImageCandidate],
    origins: &Origins,
) -> Result<Locked, BuildError> {
    let fail = |source| BuildError::Fetch { item: format!("{item} ({reference})"), source: Box::new(source) };
    let (name, tag_or_digest) = split(reference);
    let platform = made_for(platform);
    let image = origins.registry.resolve(candidates, tag_or_digest, want, platform).await.map_err(fail)?;
    image.keep(&origins.store).map_err(fail)?;
    let referrers = match origins.referrers {
        true => attached(&image, candidates, origins).await.map_err(fail)?,
        false => Vec::new(),
    };
    let content = content(reference, &image, referrers);
    if origins.http.is_offline() {
        check_kept(&content, &origins.store).map_err(fail)?;
    }
    Ok(Locked { only_a_mirror_answered: image.answered_by != name, content })
}

/// Whether a place has what [`lock`] would take of it for a platform; nothing of it is kept.
pub async fn look(
    reference: &str,
    want: Option<Digest>,
    platform: Option<Platform>,
    candidate: &ImageCandidate,
    origins: &Origins,
) -> Result<(), TransportError> {
    let (_, tag_or_digest) = split(reference);
    origins.registry.look(candidate, tag_or_digest, want, made_for(platform)).await.map(drop)
}

/// The platform of an image that is needed for no platform in particular.
fn made_for(platform: Option<Platform>) -> Platform {
    platform.unwrap_or(Platform::LINUX_AMD64)
}

/// What the registry that answered has attached to the image; its manifests are kept in the store.
async fn attached(
    image: &ResolvedImage,
    candidates: &[ImageCandidate],
    origins: &Origins,
) -> Result<Vec<Referrer>, TransportError> {
    let mut subjects = vec![image.target.digest, image.manifest.digest];
    subjects.dedup();
    let mut all = Vec::new();
    for one in origins.registry.attached(candidates, &image.answered_by, &subjects).await? {
        one.keep(&origins.store)?;
        all.push(referrer(one));
    }
    Ok(all)
}

fn referrer(attached: Attached) -> Referrer {
    let Attached { subject, tag, manifest, blobs } = attached;
    Referrer { subject, tag, manifest: manifest.descriptor, blobs }
}

/// What a locked image is by its own index and manifests, from its digest down; they are kept in the store, where fetching
/// finds them. None when they are not available offline: fetching reports that, unless a base has them.
pub async fn from_digest(
    item: &LockItem,
    candidates: &[ImageCandidate],
    origins: &Origins,
) -> Result<Option<Content>, BuildError> {
    let Content::Image { reference, target, referrers, .. } = &item.content else { return Ok(None) };
    let platform = made_for(item.platform);
    let known = async {
        let registry = &origins.registry;
        let asked = target.digest.to_string();
        let image = registry.resolve(candidates, &asked, Some(target.digest), platform).await?;
        image.keep(&origins.store)?;
        let mut attached = Vec::new();
        for one in referrers {
            let about = (one.subject, one.tag.clone());
            let found = registry.attached_by(candidates, about, &one.manifest, &origins.store).await?;
            attached.extend(found.map(referrer));
        }
        Ok(content(reference, &image, attached))
    };
    match known.await {
        Ok(content) => Ok(Some(content)),
        Err(TransportError::NotCached { .. }) => Ok(None),
        Err(source) => Err(BuildError::Fetch { item: format!("{} ({reference})", item.key), source: Box::new(source) }),
    }
}

/// Whether a folder of this machine is an OCI layout.
pub fn check_local(item: &str, folder: &Path) -> Result<(), BuildError> {
    let fail = |source| BuildError::Fetch { item: item.to_owned(), source: Box::new(source) };
    if !folder.is_dir() {
        let source = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no such folder");
        return Err(BuildError::Local { path: folder.to_owned(), source });
    }
    Layout::open(folder).map(drop).map_err(fail)
}

/// The same from a folder of this machine. Index, manifest and config are kept in the store; layers are packed from where they lie.
pub async fn lock_local(
    item: &str,
    reference: &str,
    folder: &Path,
    platform: Option<Platform>,
    origins: &Origins,
) -> Result<Content, BuildError> {
    let platform = made_for(platform);
    let fail = |source| BuildError::Fetch { item: format!("{item} ({reference})"), source: Box::new(source) };
    let layout = Layout::open(folder).map_err(fail)?;
    // A layout of one image may name it otherwise, or not at all; one of several by the whole reference or, as skopeo does, by the tag.
    let tag = reference.rsplit_once('/').map_or(reference, |(_, name)| name).rsplit_once(':').map(|(_, tag)| tag);
    let name = [Some(reference), tag].into_iter().flatten().find(|wanted| layout.names().any(|name| name == *wanted));
    let image = layout.resolve(name, None, platform).await.map_err(fail)?;
    let (store, in_place) = (origins.store.clone(), origins.in_place.clone());
    let content = content(reference, &image, Vec::new());
    tokio::task::spawn_blocking(move || {
        image.keep(&store)?;
        for layer in &image.layers {
            // A layout may lack what the cache has.
            if !store.holds(&layer.digest, layer.size)? {
                in_place.insert(layer.digest, &layout.file_of(layer)?);
            }
        }
        Ok(())
    })
    .await
    .map_err(|e| BuildError::Worker(e.to_string()))?
    .map_err(fail)?;
    Ok(content)
}

/// Brings a config, a layer or a manifest into the store.
pub async fn fetch(
    blob: &Descriptor,
    candidates: &[ImageCandidate],
    origins: &Origins,
    progress: &Progress<'_>,
) -> Result<(), TransportError> {
    if is_manifest(&blob.media_type) {
        return origins.registry.fetch_manifest(candidates, blob, &origins.store).await;
    }
    origins.registry.fetch_blob(candidates, blob, &origins.store, progress).await
}

/// Whether registries keep it among their manifests.
pub fn is_manifest(media_type: &str) -> bool {
    kubexm_transport::oci::is_manifest(media_type)
}

/// Everything that an image is made of, manifests and indexes first.
pub fn descriptors(content: &Content) -> Vec<&Descriptor> {
    let Content::Image { target, manifest, blobs, referrers, .. } = content else { return Vec::new() };
    let attached = referrers.iter().flat_map(Referrer::descriptors);
    [target, manifest].into_iter().chain(blobs).chain(attached).collect()
}

/// The blobs missing in the store, of an image that was resolved offline.
fn check_kept(content: &Content, store: &Store) -> Result<(), TransportError> {
    let mut absent = Vec::new();
    for blob in descriptors(content) {
        if !store.holds(&blob.digest, blob.size)? {
            absent.push(format!("blob {} ({})", blob.digest, blob.media_type));
        }
    }
    if absent.is_empty() { Ok(()) } else { Err(TransportError::NotCached { what: absent.join(", ") }) }
}

fn content(reference: &str, image: &ResolvedImage, referrers: Vec<Referrer>) -> Content {
    let nested = image.nested.iter().map(|raw| raw.descriptor.clone());
    Content::Image {
        reference: reference.to_owned(),
        target: image.target.clone(),
        manifest: image.manifest.clone(),
        blobs: nested.chain(image.blobs()).collect(),
        referrers,
        signed: None,
    }
}

/// `registry/repository` and the tag or digest of a full reference; `latest` where it has neither.
pub fn split(reference: &str) -> (&str, &str) {
    if let Some((name, digest)) = reference.split_once('@') {
        return (kubexm_spec::depot::split_reference(name).0, digest);
    }
    let (name, tag) = kubexm_spec::depot::split_reference(reference);
    (name, tag.unwrap_or("latest"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_digest_wins_over_a_tag_and_no_tag_means_latest() {
        let digest = kubexm_spec::Digest::of("x").to_string();
        assert_eq!(super::split("a.b/c:1"), ("a.b/c", "1"));
        assert_eq!(super::split("a.b:5000/c"), ("a.b:5000/c", "latest"));
        assert_eq!(super::split(&format!("a.b/c:1@{digest}")), ("a.b/c", digest.as_str()));
    }
}
