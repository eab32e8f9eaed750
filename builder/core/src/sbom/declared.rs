//! Licences that images declare themselves: `org.opencontainers.image.licenses` (image-spec, annotations.md), an SPDX expression.

use std::collections::BTreeMap;

use kubexm_archive::{Bundle, members};
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{Digest, Kind};
use serde::Deserialize;

const ANNOTATION: &str = "org.opencontainers.image.licenses";
/// The most bytes of a manifest or a config that are read.
const LIMIT: u64 = 4 << 20;
/// The most bytes of an expression, which is written for each artifact that has the manifest: those of distributions have some hundred.
const EXPRESSION: usize = 2048;

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
    is_licence(declared).then(|| declared.to_owned())
}

fn is_licence(declared: &str) -> bool {
    declared.len() <= EXPRESSION && spdx::Expression::parse(declared).is_ok()
}

fn read<T: serde::de::DeserializeOwned>(bundle: &Bundle, digest: &Digest) -> Option<T> {
    let name = members::blob_name(digest);
    bundle.find(&name)?;
    serde_json::from_slice(&bundle.read(&name, LIMIT).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::is_licence;

    #[test]
    fn a_licence_is_an_expression_of_a_length_that_people_write() {
        let many = |count: usize| vec!["MIT"; count].join(" AND ");
        assert!(is_licence("MIT OR Apache-2.0") && is_licence(&many(250)));
        assert!(!is_licence("as upstream says") && !is_licence(&many(300)));
    }
}
