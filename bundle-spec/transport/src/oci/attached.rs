//! What is attached to an image: signatures, attestations, SBOMs. By the list of referrers (distribution-spec 1.1), and by
//! cosign's tags (`sha256-….sig`, `.att`, `.sbom`), which most images are still signed with.

use std::collections::BTreeMap;

use kubexm_spec::Digest;
use kubexm_spec::lock::Descriptor;
use serde::{Deserialize, Serialize};

use super::image::{self, Parsed};
use super::push::Repository;
use super::referrers::referrers_tag;
use super::{ImageCandidate, OciRegistry, RawManifest};
use crate::{Store, TransportError};

/// The ends of cosign's tags.
const ENDS: [&str; 3] = ["sig", "att", "sbom"];
/// The most that are taken for one image: everyone with push access may attach.
const MOST: usize = 64;
/// In bytes, of all blobs of one of them: a bill of materials of a large image has some ten MiB.
const LARGEST: u64 = 256 << 20;

/// One thing that is attached to an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// What it is about: the index or the manifest of a platform.
    pub subject: Digest,
    /// The tag that it is found by; none where the list of referrers names it.
    pub tag: Option<String>,
    /// Its manifest.
    pub manifest: RawManifest,
    /// Config and layers.
    pub blobs: Vec<Descriptor>,
}

/// What the store notes of a subject, for a time without a network.
#[derive(Serialize, Deserialize)]
struct Noted {
    tag: Option<String>,
    digest: Digest,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    manifests: Vec<Listed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    digest: String,
    #[serde(default)]
    artifact_type: Option<String>,
}

impl Listed {
    /// Whether it says that it is a signature, as cosign calls them.
    fn is_signature(&self) -> bool {
        let kind = self.artifact_type.as_deref().unwrap_or_default();
        kind.starts_with("application/vnd.dev.sigstore.bundle")
            || kind == "application/vnd.dev.cosign.artifact.sig.v1+json"
    }
}

impl Attached {
    /// Puts its manifest into the store; the blobs are fetched as those of images are.
    pub fn keep(&self, store: &Store) -> Result<(), TransportError> {
        let RawManifest { descriptor, bytes } = &self.manifest;
        if !store.holds(&descriptor.digest, descriptor.size)? {
            store.insert(bytes.as_slice(), Some(descriptor.digest))?;
        }
        Ok(())
    }
}

impl OciRegistry {
    /// What is attached by this manifest, which is brought into the store; none when it carries nothing that has blobs.
    pub async fn attached_by(
        &self,
        candidates: &[ImageCandidate],
        (subject, tag): (Digest, Option<String>),
        manifest: &Descriptor,
        store: &Store,
    ) -> Result<Option<Attached>, TransportError> {
        self.fetch_manifest(candidates, manifest, store).await?;
        Ok(read(subject, tag, store.read(&manifest.digest, image::MANIFEST_LIMIT)?))
    }

    /// What is attached to these manifests at the place that answered for their image (`registry/repository`). Sorted.
    ///
    /// A registry that knows no referrers and has no such tags has nothing attached; one that does not answer is an error, so
    /// that the same image is not carried with its signature one day and without it the next.
    pub async fn attached(
        &self,
        candidates: &[ImageCandidate],
        answered_by: &str,
        subjects: &[Digest],
    ) -> Result<Vec<Attached>, TransportError> {
        let place = |candidate: &ImageCandidate| format!("{}/{}", candidate.registry, candidate.repository);
        if self.http.is_offline() {
            let kept = subjects.iter().map(|subject| self.kept(answered_by, subject));
            return Ok(kept.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect());
        }
        let Some(asked) = subjects.first().map(Digest::to_string) else { return Ok(Vec::new()) };
        let at_place = self.expand(candidates, &asked).into_iter().flatten().filter(|one| place(one) == answered_by);
        // More than one where a place may be spoken to in two ways (`insecure` of registries.conf).
        let mut last = Ok(Vec::new());
        for candidate in at_place {
            last = self.attached_at(&candidate, answered_by, subjects).await;
            match &last {
                Err(error) if !error.is_ours() => {}
                _ => return last,
            }
        }
        last
    }

    async fn attached_at(
        &self,
        candidate: &ImageCandidate,
        answered_by: &str,
        subjects: &[Digest],
    ) -> Result<Vec<Attached>, TransportError> {
        let repository = self.repository(candidate, &[]).await?;
        let mut all = Vec::new();
        for subject in subjects {
            let found = of_subject(&repository, subject).await?;
            if let Some(store) = &self.store {
                let recorded: Vec<Noted> = found
                    .iter()
                    .map(|one| Noted { tag: one.tag.clone(), digest: one.manifest.descriptor.digest })
                    .collect();
                if let Ok(text) = serde_json::to_string(&recorded) {
                    store.note(&key(answered_by, subject), &text)?;
                }
            }
            all.extend(found);
        }
        Ok(all)
    }

    /// From the store: what was attached when it was last asked.
    fn kept(&self, place: &str, subject: &Digest) -> Result<Vec<Attached>, TransportError> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let recorded =
            store.recorded(&key(place, subject))?.and_then(|text| serde_json::from_str::<Vec<Noted>>(&text).ok());
        let mut all = Vec::new();
        for Noted { tag, digest } in recorded.unwrap_or_default() {
            let absent = || TransportError::NotCached { what: format!("{digest}, attached to {place}@{subject},") };
            let bytes = store.read(&digest, image::MANIFEST_LIMIT).map_err(|_| absent())?;
            let one = read(*subject, tag, bytes).filter(|one| one.manifest.descriptor.digest == digest);
            all.push(one.ok_or_else(absent)?);
        }
        Ok(all)
    }
}

/// The tags that cosign attaches by to a manifest: of its signatures, attestations and bill of materials.
pub fn cosign_tags(subject: &Digest) -> [String; 3] {
    ENDS.map(|end| format!("{}.{end}", referrers_tag(subject)))
}

async fn of_subject(repository: &Repository, subject: &Digest) -> Result<Vec<Attached>, TransportError> {
    let mut found = BTreeMap::new();
    // What a registry makes of a list that it does not know differs (404, 405, 400 …); whether it is down, the tags tell.
    let pages = match repository.referrers(subject, "").await {
        Ok(list) => list.pages,
        Err(error) if error.is_ours() => return Err(error),
        Err(error) => {
            tracing::debug!(%error, "a registry that lists no referrers");
            repository.manifest(&referrers_tag(subject)).await?.into_iter().map(|raw| raw.bytes).collect()
        }
    };
    for digest in listed(pages.iter().map(Vec::as_slice)) {
        let raw = repository.manifest(&digest.to_string()).await?;
        let one = raw.and_then(|raw| read(*subject, None, raw.bytes));
        found.extend(one.map(|one| (digest, one)));
    }
    for tag in cosign_tags(subject) {
        let raw = repository.manifest(&tag).await?;
        if let Some(one) = raw.and_then(|raw| read(*subject, Some(tag), raw.bytes)) {
            found.insert(one.manifest.descriptor.digest, one);
        }
    }
    Ok(found.into_values().collect())
}

/// What the pages of a list of referrers name: the first so many, signatures before all else.
pub(super) fn listed<'p>(pages: impl IntoIterator<Item = &'p [u8]>) -> Vec<Digest> {
    let (mut all, mut others) = (Vec::new(), Vec::new());
    for page in pages {
        let list = serde_json::from_slice::<List>(page).ok();
        for entry in list.into_iter().flat_map(|list| list.manifests) {
            let Ok(digest) = entry.digest.parse::<Digest>() else { continue };
            let kind = if entry.is_signature() { &mut all } else { &mut others };
            if kind.len() < MOST {
                kind.push(digest);
            }
        }
    }
    all.append(&mut others);
    all.truncate(MOST);
    all
}

/// None of what is no manifest with layers (an index of referrers, say), which cannot be carried as one, nor of what is far too large.
pub(super) fn read(subject: Digest, tag: Option<String>, bytes: Vec<u8>) -> Option<Attached> {
    let Ok(Parsed::Manifest { media_type, config, layers }) = image::parse(&bytes) else {
        tracing::warn!(%subject, "something attached is not a manifest and is left out");
        return None;
    };
    let descriptor = Descriptor { media_type, digest: Digest::of(&bytes), size: bytes.len() as u64 };
    let mut blobs: Vec<Descriptor> = std::iter::once(config).chain(layers).collect();
    blobs.sort();
    blobs.dedup_by_key(|blob| blob.digest);
    let size = blobs.iter().fold(0_u64, |sum, blob| sum.saturating_add(blob.size));
    if size > LARGEST {
        tracing::warn!(%subject, size, "something attached is larger than a signature or a list can be, and is left out");
        return None;
    }
    Some(Attached { subject, tag, manifest: RawManifest { descriptor, bytes }, blobs })
}

fn key(place: &str, subject: &Digest) -> String {
    format!("attached {place}@{subject}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn signatures_are_taken_before_what_else_is_listed() {
        let page = |from: usize, kind: &Value| {
            let entry = |at: usize| json!({"digest": Digest::of(at.to_string()), "artifactType": kind});
            json!({"manifests": (from..from + 70).map(entry).collect::<Vec<_>>()}).to_string().into_bytes()
        };
        let digests = |range: std::ops::Range<usize>| range.map(|at| Digest::of(at.to_string())).collect::<Vec<_>>();
        let sbom = page(0, &json!("application/spdx+json"));
        let one =
            json!({"digest": Digest::of("1000"), "artifactType": "application/vnd.dev.sigstore.bundle.v0.3+json"});
        let signed = json!({"manifests": [{"digest": Digest::of("999")}, one]}).to_string().into_bytes();
        let found = listed([&*sbom, &signed]);
        assert_eq!(found, [&digests(1000..1001)[..], &digests(0..63)].concat());
        assert_eq!(listed([&*page(0, &Value::Null), b"no list"]), digests(0..64));
    }
}
