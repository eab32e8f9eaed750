//! One image of the node's content store as a tar of an OCI image layout (image-spec, image-layout.md), generated while
//! it is read, so that no copy of the image is written.

use std::collections::BTreeSet;

use kubexm_spec::Digest;
use serde::Deserialize;
use serde_json::json;

use crate::system::Piece;
use crate::{Machine, OpError};

/// Annotation with the full name of an image for containerd's importer.
const IMAGE_NAME: &str = "io.containerd.image.name";
/// Size of a tar block in bytes.
const BLOCK: u64 = 512;
/// No index or manifest is larger (OCI distribution-spec: 4 MiB).
const MANIFEST_LIMIT: u64 = 4 << 20;

/// The fields that determine the type of a document.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    media_type: Option<String>,
    manifests: Option<serde::de::IgnoredAny>,
}

/// The archive: `name` is a tag of `digest`, and `blobs` is its complete content.
pub(crate) fn pieces(
    machine: &Machine,
    name: &str,
    digest: &Digest,
    blobs: &BTreeSet<Digest>,
) -> Result<Vec<Piece>, OpError> {
    let top = machine.blob(digest);
    let size = top.metadata().map_err(OpError::path("examine the blob", &top))?.len();
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": media_type(machine, digest, size)?,
            "digest": digest,
            "size": size,
            "annotations": {IMAGE_NAME: name, kubexm_spec::names::REF_NAME: name},
        }],
    });
    let mut pieces = Vec::new();
    for (name, text) in [("oci-layout", json!({"imageLayoutVersion": "1.0.0"})), ("index.json", index)] {
        let bytes = text.to_string().into_bytes();
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        member(&mut pieces, name, size, Piece::Bytes(bytes))?;
    }
    for blob in blobs.iter().chain((!blobs.contains(digest)).then_some(digest)) {
        let path = machine.blob(blob);
        let size = path.metadata().map_err(OpError::path("examine the blob", &path))?.len();
        member(&mut pieces, &format!("blobs/sha256/{}", blob.hex()), size, Piece::File { path, size })?;
    }
    // A tar ends with two empty blocks.
    pieces.push(Piece::Bytes(vec![0; 1024]));
    Ok(pieces)
}

fn member(pieces: &mut Vec<Piece>, name: &str, size: u64, content: Piece) -> Result<(), OpError> {
    let mut header = tar::Header::new_gnu();
    header.set_path(name).map_err(OpError::path("name the member", name))?;
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    pieces.extend([Piece::Bytes(header.as_bytes().to_vec()), content]);
    let padding = usize::try_from((BLOCK - size % BLOCK) % BLOCK).unwrap_or_default();
    pieces.push(Piece::Bytes(vec![0; padding]));
    Ok(())
}

/// The media type in the document; if it is missing, as OCI allows, it is derived from the other fields.
fn media_type(machine: &Machine, digest: &Digest, size: u64) -> Result<String, OpError> {
    let path = machine.blob(digest);
    if size > MANIFEST_LIMIT {
        return Err(OpError::other(format!("{} is too large for an image's manifest", path.display())));
    }
    let bytes = std::fs::read(&path).map_err(OpError::path("read the blob", &path))?;
    let document: Document = serde_json::from_slice(&bytes)
        .map_err(|error| OpError::other(format!("{} is not an image manifest: {error}", path.display())))?;
    let oci = if document.manifests.is_some() { "index" } else { "manifest" };
    Ok(document.media_type.unwrap_or_else(|| format!("application/vnd.oci.image.{oci}.v1+json")))
}
