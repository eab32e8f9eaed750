//! What a bundle calls its images, beside its manifest: names in index.json, by which images are copied out of the unpacked layout,
//! and tags of what is attached.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use kubexm_archive::{DOCUMENT_LIMIT, Documents, check_values};
use kubexm_signing::image::Image;
use kubexm_spec::{Digest, Lock, names};
use kubexm_transport::oci::cosign_tags;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::{BuildError, pack};

const MEMBER: &str = "index.json";
/// Which name of an entry containerd and docker take first.
const CONTAINERD_NAME: &str = "io.containerd.image.name";

/// `index.json` with what this program writes there and nothing else: readers that are written in Go take a key in any letters, and
/// would go by another `Digest` than `digest`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    #[serde(rename = "schemaVersion")]
    _schema_version: Option<IgnoredAny>,
    #[serde(rename = "mediaType")]
    _media_type: Option<IgnoredAny>,
    manifests: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(rename = "mediaType")]
    _media_type: Option<IgnoredAny>,
    #[serde(rename = "artifactType")]
    _artifact_type: Option<IgnoredAny>,
    digest: Digest,
    #[serde(rename = "size")]
    _size: Option<IgnoredAny>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Names of images in index.json that are not the lock's, which is judged, and tags of what is attached that are none of cosign's:
/// under such a name stands an image that nobody has judged.
pub(super) fn problems(bundle: &dyn Documents, lock: &Lock) -> Result<BTreeSet<String>, BuildError> {
    let (mut known, mut problems) = (HashSet::new(), BTreeSet::new());
    for image in lock.items.iter().filter_map(|item| Image::of(&item.content)) {
        known.insert((image.reference.to_owned(), image.target.digest));
        for one in image.referrers {
            let Some(tag) = &one.tag else { continue };
            if cosign_tags(&one.subject).contains(tag) {
                known.insert((pack::attached_name(image.reference, tag), one.manifest.digest));
                continue;
            }
            problems.insert(format!(
                "{}: the lock of the bundle attaches {} to {} under the tag {tag}, which is none of a signature, an attestation or a \
                 bill of materials of it",
                image.reference, one.manifest.digest, one.subject
            ));
        }
    }
    for entry in entries(bundle)? {
        let called = [names::REF_NAME, CONTAINERD_NAME].into_iter().filter_map(|key| entry.annotations.get(key));
        for name in called.filter(|name| !pack::is_of_file(name)) {
            let digest = entry.digest;
            if !known.contains(&(name.clone(), digest)) {
                problems.insert(format!("{name}: {MEMBER} of the bundle has it as {digest}, and its lock does not"));
            }
        }
    }
    Ok(problems)
}

/// None where it is not there, which makes a bundle incomplete.
fn entries(bundle: &dyn Documents) -> Result<Vec<Entry>, BuildError> {
    if bundle.size_of(MEMBER).is_none() {
        return Ok(Vec::new());
    }
    let json = bundle.document(MEMBER, DOCUMENT_LIMIT)?;
    let bad = |reason: String| BuildError::Member { member: MEMBER, reason };
    check_values(&json).map_err(|e| bad(format!("it {e}")))?;
    let index: Index = serde_json::from_slice(&json).map_err(|e| bad(e.to_string()))?;
    Ok(index.manifests)
}
