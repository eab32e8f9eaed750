//! What refers to a bundle in a registry: its signatures, its bill of materials (image-spec 1.1, "subject").

use std::collections::HashSet;

use kubexm_archive::members;
use kubexm_spec::{Digest, json as json_text};
use serde::Deserialize;
use serde_json::{Value, json};

use super::artifact::{ArtifactError, Document, IMAGE_MANIFEST, Layer, MANIFEST_LIMIT, TITLE, manifest_json};

/// `artifactType` of the signature room of a bundle.
pub const SIGNATURE_TYPE: &str = "application/vnd.kubexm.signature.v1";
/// Media type of its layer.
const SIGNATURE_LAYER: &str = "application/vnd.kubexm.signature.v1+json";
/// `artifactType` of a bill of materials, and media type of its layer (CycloneDX, registered with IANA).
pub const SBOM_TYPE: &str = "application/vnd.cyclonedx+json";
/// Media type of an index, which a list of referrers is.
pub const IMAGE_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// What a list may take as memory, in bytes: everybody who may push can add to one.
const LIST_MEMORY: usize = 64 << 20;
/// More referrers of one kind than this are not looked at.
pub const LOOKS: usize = 32;

/// A manifest by digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Of its bytes.
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
}

/// A document that refers to a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    pub artifact_type: &'static str,
    /// The document.
    pub content: Vec<u8>,
    media_type: &'static str,
    title: &'static str,
}

impl Referrer {
    /// The member `manifest.json.sig`, whole.
    pub fn signature(room: Vec<u8>) -> Self {
        let (artifact_type, media_type, title) = (SIGNATURE_TYPE, SIGNATURE_LAYER, members::SIGNATURE);
        Self { artifact_type, content: room, media_type, title }
    }

    /// A bill of materials, CycloneDX in JSON.
    pub fn sbom(content: Vec<u8>) -> Self {
        Self { artifact_type: SBOM_TYPE, content, media_type: SBOM_TYPE, title: "sbom.cdx.json" }
    }

    /// Its manifest; the same for the same content and subject.
    pub fn to_json(&self, subject: Subject) -> Vec<u8> {
        let layer = json!({
            "annotations": { TITLE: self.title },
            "digest": Digest::of(&self.content),
            "mediaType": self.media_type,
            "size": self.content.len(),
        });
        let subject = json!({ "digest": subject.digest, "mediaType": IMAGE_MANIFEST, "size": subject.size });
        manifest_json(self.artifact_type, vec![layer], Some(subject))
    }
}

/// The layer of a referrer of one kind: its manifest must be of that kind, and of that subject.
pub fn parse(bytes: &[u8], artifact_type: &str, subject: &Digest) -> Result<Layer, ArtifactError> {
    let document = Document::read(bytes)?;
    if document.artifact_type.as_deref() != Some(artifact_type) {
        return Err(ArtifactError::Broken(format!("a referrer that is listed as {artifact_type} is not one")));
    }
    if document.subject.as_ref().and_then(|found| found.digest.parse().ok()) != Some(*subject) {
        return Err(ArtifactError::Broken("a referrer refers to something else".to_owned()));
    }
    document.check_config()?;
    let mut layers = document.layers.into_iter();
    match (layers.next(), layers.next()) {
        (Some(layer), None) => layer.layer(),
        _ => Err(ArtifactError::Broken("a referrer does not have exactly one layer".to_owned())),
    }
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    digest: String,
    #[serde(default)]
    artifact_type: String,
}

/// The digests of one kind in a list of referrers, in its order. Anybody may add to such a list: what cannot be read in it
/// is passed over.
pub fn listed(index: &[u8], artifact_type: &str) -> Result<Vec<Digest>, ArtifactError> {
    let broken = |problem: String| ArtifactError::Broken(format!("its list of referrers: {problem}"));
    if index.len() > MANIFEST_LIMIT {
        return Err(broken(format!("has {} bytes", index.len())));
    }
    let index: Index = serde_json::from_slice(index).map_err(|e| broken(e.to_string()))?;
    let fitting = index.manifests.iter().filter(|entry| entry.artifact_type == artifact_type);
    Ok(fitting.filter_map(|entry| entry.digest.parse().ok()).collect())
}

/// Those that are looked at, at most [`LOOKS`], and how many are left out: the last ones of a list that is in the order in
/// which it grew, which are the newest; of another the last by digest, so that every pull takes the same.
pub fn looked_at(mut listed: Vec<Digest>, ordered: bool) -> (Vec<Digest>, usize) {
    if !ordered {
        listed.sort_unstable();
    }
    let mut seen = HashSet::new();
    // Of one that is listed twice, the later place counts.
    listed.reverse();
    listed.retain(|digest| seen.insert(*digest));
    let left_out = listed.len().saturating_sub(LOOKS);
    listed.truncate(LOOKS);
    listed.reverse();
    (listed, left_out)
}

/// The list for the tag of the referrers tag schema, with `added` in it; nothing when it is there already. What others
/// have put into the list is kept.
pub fn with(index: Option<&[u8]>, added: &[(&Referrer, Subject)]) -> Result<Option<Vec<u8>>, ArtifactError> {
    let broken = |problem: &str| ArtifactError::Broken(format!("its list of referrers {problem}"));
    let mut list: Value = match index {
        Some(bytes) if bytes.len() > MANIFEST_LIMIT || json_text::memory_of(bytes) > LIST_MEMORY => {
            return Err(broken("is too long"));
        }
        Some(bytes) => serde_json::from_slice(bytes).map_err(|_| broken("is not an index"))?,
        None => json!({ "manifests": [], "mediaType": IMAGE_INDEX, "schemaVersion": 2 }),
    };
    let manifests = list.get_mut("manifests").and_then(Value::as_array_mut).ok_or_else(|| broken("is not an index"))?;
    let before = manifests.len();
    for (referrer, descriptor) in added {
        let digest = json!(descriptor.digest);
        if manifests.iter().any(|entry| entry.get("digest") == Some(&digest)) {
            continue;
        }
        manifests.push(json!({
            "artifactType": referrer.artifact_type,
            "digest": digest,
            "mediaType": IMAGE_MANIFEST,
            "size": descriptor.size,
        }));
    }
    Ok((manifests.len() > before).then(|| list.to_string().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a registry's tag, to which everybody who may push can write.
    #[test]
    fn a_list_to_add_to_has_an_end_in_bytes_and_in_memory() {
        let (referrer, subject) = (Referrer::sbom(Vec::new()), Subject { digest: Digest::of("x"), size: 1 });
        let add = |list: &str| with(Some(list.as_bytes()), &[(&referrer, subject)]);
        let list = |entries: usize| format!("{{\"manifests\":[{}{{}}]}}", "{},".repeat(entries));
        assert!(add(&list(1_000)).unwrap().is_some());
        let many = list(100_000);
        assert!(many.len() < MANIFEST_LIMIT && json_text::memory_of(many.as_bytes()) > LIST_MEMORY);
        let long = format!("{{\"manifests\":[],\"x\":\"{}\"}}", "x".repeat(MANIFEST_LIMIT));
        assert!(json_text::memory_of(long.as_bytes()) < LIST_MEMORY);
        for text in [many, long] {
            let error = add(&text).unwrap_err().to_string();
            assert!(error.contains("its list of referrers is too long"), "{error}");
        }
    }

    #[test]
    fn the_newest_signatures_are_chosen_whatever_the_order_of_the_list() {
        let all: Vec<Digest> = (0..40).map(|n: u32| Digest::of(n.to_string())).collect();
        assert_eq!(looked_at(all.clone(), true), (all[8..].to_vec(), 8));
        let mut turned = all.clone();
        turned.rotate_left(17);
        let (some, left_out) = looked_at(turned, false);
        assert_eq!((some.len(), left_out), (LOOKS, 8));
        assert_eq!(looked_at(all.clone(), false), (some, 8));
        // Listed again is listed anew, and counts once.
        let again = [&all[..32], &all[..1]].concat();
        assert_eq!(looked_at(again, true), ([&all[1..32], &all[..1]].concat(), 0));
    }
}
