//! Licences that images declare themselves: `org.opencontainers.image.licenses` (image-spec, annotations.md), an SPDX expression.

use std::collections::BTreeMap;

use kubexm_archive::{Bundle, members};
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{Digest, Kind};
use serde::Deserialize;

const ANNOTATION: &str = "org.opencontainers.image.licenses";
/// The most bytes of a manifest or a config that are read.
const LIMIT: u64 = 4 << 20;

#[derive(Deserialize)]
struct ImageManifest {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    config: Option<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: Digest,
}

#[derive(Deserialize)]
struct ImageConfig {
    config: Option<Labelled>,
}

#[derive(Deserialize)]
struct Labelled {
    #[serde(default, rename = "Labels")]
    labels: Option<BTreeMap<String, String>>,
}

/// By the digest of an image's manifest. What is no SPDX expression, and what a delta leaves out, is not among them.
pub(crate) fn licences(bundle: &Bundle) -> BTreeMap<Digest, String> {
    let images = bundle.manifest().artifacts.iter().filter(|artifact| artifact.key.kind() == Kind::Image);
    images.filter_map(|image| Some((image.manifest?, licence(bundle, image)?))).collect()
}

fn licence(bundle: &Bundle, image: &Artifact) -> Option<String> {
    let manifest: ImageManifest = read(bundle, &image.manifest?)?;
    let label = || {
        let config: ImageConfig = read(bundle, &manifest.config.as_ref()?.digest)?;
        config.config?.labels?.remove(ANNOTATION)
    };
    let declared = manifest.annotations.get(ANNOTATION).cloned().or_else(label)?;
    let declared = declared.trim();
    spdx::Expression::parse(declared).is_ok().then(|| declared.to_owned())
}

fn read<T: serde::de::DeserializeOwned>(bundle: &Bundle, digest: &Digest) -> Option<T> {
    let name = members::blob_name(digest);
    bundle.find(&name)?;
    serde_json::from_slice(&bundle.read(&name, LIMIT).ok()?).ok()
}
