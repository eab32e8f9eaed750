//! `index.json` and the OCI artifact manifests of everything that is not an image, so that a bundle unpacked is a plain
//! OCI layout (bundle format v1, "Members"; OCI image-spec v1.1, "Guidelines for Artifact Usage").

use std::collections::BTreeMap;

use kubexm_spec::depot::split_reference;
use kubexm_spec::lock::{Content, Referrer};
use kubexm_spec::{ArtifactKey, Digest, Lock, Platform, names};
use serde_json::{Value, json};

use crate::BuildError;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// OCI image-spec, "Guidance for an Empty Descriptor".
const EMPTY: &[u8] = b"{}";

/// `index.json` and the small blobs that were made for it.
pub struct Index {
    pub json: Vec<u8>,
    pub blobs: BTreeMap<Digest, Vec<u8>>,
}

pub fn build(lock: &Lock) -> Result<Index, BuildError> {
    let mut blobs = BTreeMap::new();
    let mut entries = BTreeMap::new();
    for item in &lock.items {
        let (name, entry) = match &item.content {
            Content::Image { reference, target, .. } => (
                reference.clone(),
                json!({
                    "mediaType": target.media_type,
                    "digest": target.digest,
                    "size": target.size,
                    "annotations": { names::REF_NAME: reference },
                }),
            ),
            Content::File { file_name, digest, size } => {
                let name = ref_name(&item.key, &item.version, item.platform, file_name);
                let manifest = encode(&json!({
                    "schemaVersion": 2,
                    "mediaType": MANIFEST,
                    "artifactType": item.key.kind().artifact_type(),
                    "config": { "mediaType": "application/vnd.oci.empty.v1+json", "digest": Digest::of(EMPTY), "size": EMPTY.len() },
                    "layers": [{
                        "mediaType": "application/octet-stream",
                        "digest": digest,
                        "size": size,
                        "annotations": { "org.opencontainers.image.title": file_name },
                    }],
                }))?;
                let entry = json!({
                    "mediaType": MANIFEST,
                    "artifactType": item.key.kind().artifact_type(),
                    "digest": Digest::of(&manifest),
                    "size": manifest.len(),
                    "annotations": { names::REF_NAME: name },
                });
                blobs.insert(Digest::of(EMPTY), EMPTY.to_vec());
                blobs.insert(Digest::of(&manifest), manifest);
                (name, entry)
            }
        };
        // An image of two platforms is one entry: its index names both.
        entries.insert(name, entry);
        if let Content::Image { reference, referrers, .. } = &item.content {
            entries.extend(referrers.iter().map(|one| attached(reference, one)));
        }
    }
    let entries: Vec<Value> = entries.into_values().collect();
    let json = encode(&json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries }))?;
    Ok(Index { json, blobs })
}

/// What is attached to an image is found as in its repository: by its tag, or by its subject (then its entry has no name).
fn attached(reference: &str, one: &Referrer) -> (String, Value) {
    let Referrer { tag, manifest, .. } = one;
    let mut entry = json!({
        "mediaType": manifest.media_type, "digest": manifest.digest, "size": manifest.size,
    });
    match tag {
        Some(tag) => {
            let name = attached_name(reference, tag);
            entry["annotations"] = json!({ names::REF_NAME: name });
            (name, entry)
        }
        None => (format!("{}@{}", split_reference(reference).0, manifest.digest), entry),
    }
}

/// What is attached to an image by a tag has the name that it has in the image's repository.
pub(crate) fn attached_name(reference: &str, tag: &str) -> String {
    format!("{}:{tag}", split_reference(reference).0)
}

/// Whether a name is that of a file (see [`ref_name`]): no image is called so, since each has its host.
pub(crate) fn is_of_file(name: &str) -> bool {
    name.starts_with("kubexm/")
}

/// `kubexm/<kind>/<name>:<version>-<os>-<arch>`; files of the user have neither version nor platform. Names and versions of
/// packages have signs that no reference may have (`libstdc++6`, `2.9~rc1`, `1:4.8`).
pub(crate) fn ref_name(key: &ArtifactKey, version: &str, platform: Option<Platform>, file_name: &str) -> String {
    let kind = key.kind().as_str();
    match platform {
        Some(platform) => {
            let version = if version.is_empty() { "0" } else { version };
            match key {
                ArtifactKey::Package { os, name } => {
                    let (name, version) = (plain(name), plain(version));
                    format!("kubexm/{kind}/{os}/{name}:{version}-{}-{}", platform.os(), platform.arch)
                }
                _ => format!("kubexm/{kind}/{}:{version}-{}-{}", key.name(), platform.os(), platform.arch),
            }
        }
        None => format!("kubexm/{kind}/{file_name}"),
    }
}

/// Letters, digits, dots and hyphens; all else by its number, so that no two names become one (`libstdc_2b_2b6`).
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => out.push(byte.into()),
            _ => out.push_str(&format!("_{byte:02x}")),
        }
    }
    out
}

/// Sorted keys, no blanks: `serde_json`'s maps are sorted.
fn encode(value: &Value) -> Result<Vec<u8>, BuildError> {
    serde_json::to_vec(value).map_err(|e| BuildError::Encode { what: "index.json", reason: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_packages_are_references_and_no_two_become_one() {
        let name = |package: &str, version: &str| {
            let key = ArtifactKey::Package { os: "debian-12".to_owned(), name: package.to_owned() };
            ref_name(&key, version, Some(Platform::LINUX_AMD64), "x.deb")
        };
        let stdc = name("libstdc++6", "1:12.2.0-14~rc1");
        assert_eq!(stdc, "kubexm/package/debian-12/libstdc_2b_2b6:1_3a12.2.0-14_7erc1-linux-amd64");
        assert_ne!(name("a+b", "1"), name("a_2bb", "1"));
    }
}
