//! The manifest that carries signatures of an image.

use std::collections::BTreeMap;

use kubexm_spec::Digest;
use serde::Deserialize;

/// Of a layer with a payload of simple signing.
pub(super) const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Of a layer with a bundle of Sigstore, in both spellings of its version.
const BUNDLES: [&str; 2] =
    ["application/vnd.dev.sigstore.bundle.v0.3+json", "application/vnd.dev.sigstore.bundle+json;version=0.3"];
/// The most bytes of a layer that is read as a signature; cosign's have less than 20 KiB.
pub const SIGNATURE_LIMIT: u64 = 1 << 20;

/// Whether a layer of this media type is a signature.
pub fn is_signature(media_type: &str) -> bool {
    media_type == SIMPLE_SIGNING || BUNDLES.contains(&media_type)
}

/// A layer with a signature.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SignatureLayer {
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<SignatureLayer>,
}

/// The signatures in a manifest; none where it is something else. Several may have the same bytes and other annotations.
pub(super) fn layers(manifest: &[u8]) -> Vec<SignatureLayer> {
    let manifest = serde_json::from_slice::<Manifest>(manifest);
    manifest.map(|manifest| manifest.layers).unwrap_or_default()
}
