//! What is no image: a manifest that is made for it, and the blobs that it names (OCI image-spec 1.1, "Guidelines for Artifact
//! Usage"; files as `oras` writes and reads them).

use std::collections::BTreeMap;

use bytes::Bytes;
use kubexm_spec::{ArtifactKey, Digest};
use serde_json::{Value, json};

use crate::document::{Document, MANIFEST};
use crate::naming::tag_of;

/// Media type and content of the empty config (OCI image-spec, "Guidance for an Empty Descriptor").
const EMPTY_TYPE: &str = "application/vnd.oci.empty.v1+json";
const EMPTY: &[u8] = b"{}";

/// Where the bytes of a blob are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the bundle, under its digest.
    Bundle,
    /// Here.
    Memory(Bytes),
}

/// Blobs by digest, with their size in bytes.
pub type Blobs = BTreeMap<Digest, (u64, Source)>;

/// A chart or a file as it is pushed.
#[derive(Clone, Debug)]
pub struct Artifact {
    pub document: Document,
    pub blobs: Blobs,
    pub tag: String,
}

impl Artifact {
    /// Bytes of it that are in memory.
    pub fn memory(&self) -> usize {
        let blobs = self.blobs.values().map(|(_, source)| match source {
            Source::Memory(bytes) => bytes.len(),
            Source::Bundle => 0,
        });
        self.document.bytes.len() + blobs.sum::<usize>()
    }
}

/// A manifest; keys sorted, no blanks: the same content has the same digest.
pub fn manifest(mut fields: Value) -> Document {
    fields["schemaVersion"] = json!(2);
    fields["mediaType"] = json!(MANIFEST);
    let bytes = Bytes::from(fields.to_string().into_bytes());
    Document { digest: Digest::of(&bytes), media_type: MANIFEST.to_owned(), bytes }
}

/// A file of the user's.
pub fn file(key: &ArtifactKey, name: &str, digest: Digest, size: u64) -> Artifact {
    let empty = Bytes::from_static(EMPTY);
    let document = manifest(json!({
        "artifactType": key.kind().artifact_type(),
        "config": { "mediaType": EMPTY_TYPE, "digest": Digest::of(EMPTY), "size": EMPTY.len() },
        "layers": [{
            "mediaType": "application/octet-stream",
            "digest": digest,
            "size": size,
            "annotations": { "org.opencontainers.image.title": name },
        }],
    }));
    let blobs = [(Digest::of(EMPTY), (EMPTY.len() as u64, Source::Memory(empty))), (digest, (size, Source::Bundle))];
    Artifact { document, blobs: blobs.into(), tag: tag_of(name) }
}
