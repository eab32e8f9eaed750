//! One image of the node's content store as a tar of an OCI image layout (image-spec, image-layout.md), generated while
//! it is read, so that no copy of the image is written; for docker as `docker save` writes it (docker, image/spec/v1.2).

use std::collections::BTreeSet;

use kubexm_spec::Digest;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::system::Piece;
use crate::{Machine, OpError};

/// Annotation with the full name of an image for containerd's importer.
const IMAGE_NAME: &str = "io.containerd.image.name";
/// Size of a tar block in bytes.
const BLOCK: u64 = 512;
/// No index or manifest is larger (OCI distribution-spec: 4 MiB).
const MANIFEST_LIMIT: u64 = 4 << 20;

/// The fields of an index or a manifest that are read here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    media_type: Option<String>,
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: Digest,
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
            "mediaType": media_type(machine, digest)?,
            "digest": digest,
            "size": size,
            "annotations": {IMAGE_NAME: name, kubexm_spec::names::REF_NAME: name},
        }],
    });
    let texts = [("oci-layout", json!({"imageLayoutVersion": "1.0.0"})), ("index.json", index)];
    archive(machine, &texts, blobs.iter().chain((!blobs.contains(digest)).then_some(digest)))
}

/// What the store has of an image for one platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// The image's configuration.
    pub config: Digest,
    /// From the lowest one; one may be there twice.
    pub layers: Vec<Digest>,
}

/// Reads the image's manifest: `digest` is its own, or that of an index of which `blobs` has one platform.
pub(crate) fn content(machine: &Machine, digest: &Digest, blobs: &BTreeSet<Digest>) -> Result<Content, OpError> {
    let top = document(machine, digest)?;
    let manifest = match &top.manifests {
        None => top,
        Some(all) => {
            let here = all.iter().find(|one| blobs.contains(&one.digest));
            let here = here.ok_or_else(|| {
                OpError::other(format!("none of the manifests of the index {} is in the content store", digest.short()))
            })?;
            document(machine, &here.digest)?
        }
    };
    let config = manifest.config.ok_or_else(|| {
        OpError::other(format!("{} is no manifest of an image: it names no configuration", digest.short()))
    })?;
    Ok(Content { config: config.digest, layers: manifest.layers.iter().map(|layer| layer.digest).collect() })
}

/// The archive that `docker load` reads: it finds `manifest.json`, and in it the names of the other members.
pub(crate) fn for_docker(
    machine: &Machine,
    name: &str,
    digest: &Digest,
    blobs: &BTreeSet<Digest>,
) -> Result<Vec<Piece>, OpError> {
    let Content { config, layers } = content(machine, digest, blobs)?;
    let manifest = json!([{
        "Config": path_of(&config),
        "RepoTags": [name],
        "Layers": layers.iter().map(path_of).collect::<Vec<_>>(),
    }]);
    let once: BTreeSet<&Digest> = layers.iter().chain([&config]).collect();
    archive(machine, &[("manifest.json", manifest)], once.into_iter())
}

fn path_of(blob: &Digest) -> String {
    format!("blobs/sha256/{}", blob.hex())
}

fn archive<'a>(
    machine: &Machine,
    texts: &[(&str, Value)],
    blobs: impl Iterator<Item = &'a Digest>,
) -> Result<Vec<Piece>, OpError> {
    let mut pieces = Vec::new();
    for (name, text) in texts {
        let bytes = text.to_string().into_bytes();
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        member(&mut pieces, name, size, Piece::Bytes(bytes))?;
    }
    for blob in blobs {
        let path = machine.blob(blob);
        let size = path.metadata().map_err(OpError::path("examine the blob", &path))?.len();
        member(&mut pieces, &path_of(blob), size, Piece::File { path, size })?;
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

/// An index or a manifest of the store.
fn document(machine: &Machine, digest: &Digest) -> Result<Document, OpError> {
    let path = machine.blob(digest);
    let size = path.metadata().map_err(OpError::path("examine the blob", &path))?.len();
    if size > MANIFEST_LIMIT {
        return Err(OpError::other(format!("{} is too large for an image's manifest", path.display())));
    }
    let bytes = std::fs::read(&path).map_err(OpError::path("read the blob", &path))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| OpError::other(format!("{} is not an image manifest: {error}", path.display())))
}

/// The media type in the document; if it is missing, as OCI allows, it is derived from the other fields.
fn media_type(machine: &Machine, digest: &Digest) -> Result<String, OpError> {
    let document = document(machine, digest)?;
    let oci = if document.manifests.is_some() { "index" } else { "manifest" };
    Ok(document.media_type.unwrap_or_else(|| format!("application/vnd.oci.image.{oci}.v1+json")))
}
