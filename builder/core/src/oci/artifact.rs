//! The artifact's manifest (image-spec 1.1, manifest.md): pure, deterministic, and read as hostile input.

use std::collections::HashSet;

use kubexm_archive::{ArchiveError, Bundle, DOCUMENT_LIMIT, Documents, Layout, members};
use kubexm_spec::manifest::Manifest;
use kubexm_spec::{Digest, one_line};
use serde::Deserialize;
use serde_json::json;

/// `artifactType` of a bundle.
pub const ARTIFACT_TYPE: &str = "application/vnd.kubexm.bundle.v1";
/// Media type of the layer `manifest.json`.
pub const MANIFEST_LAYER: &str = "application/vnd.kubexm.bundle.manifest.v1+json";
/// Media type of the layer `layout.json`.
pub const LAYOUT_LAYER: &str = "application/vnd.kubexm.bundle.layout.v1+json";
/// Media type of every other member. Opaque: the registry does not treat an image's manifest or index in it as one.
pub const MEMBER_LAYER: &str = "application/vnd.kubexm.bundle.member.v1";
/// Media type of an image manifest, which an artifact's is.
pub const IMAGE_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of the empty config (image-spec 1.1, manifest.md, "Guidance for an Empty Descriptor").
pub const EMPTY_TYPE: &str = "application/vnd.oci.empty.v1+json";
/// The content of the empty config.
pub const EMPTY: &[u8] = b"{}";
/// Annotation that carries a member's name.
pub const TITLE: &str = "org.opencontainers.image.title";

/// The largest manifest that registries take (distribution-spec 1.1, "Pushing manifests"), and that is read.
pub const MANIFEST_LIMIT: usize = 4 << 20;

/// A bundle as a registry holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// manifest.json, layout.json, then the members of the file in its order.
    pub layers: Vec<Layer>,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Name of the member.
    pub name: String,
    /// Of its content.
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
}

/// What is wrong with an artifact.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ArtifactError {
    /// Registries take no manifest of that size.
    #[error(
        "the bundle has {members} members, and a manifest that names them has {size} bytes, more than the {MANIFEST_LIMIT} that registries take; build it in smaller parts, or carry it as a file"
    )]
    TooManyMembers {
        /// Of the file.
        members: usize,
        /// Bytes of the manifest.
        size: usize,
    },
    /// Something else is stored there.
    #[error("it is not a bundle but {}; name an artifact that kubexm-bundle push wrote", one_line(found))]
    NotABundle { found: String },
    /// Its artifact type is that of a bundle, but it is not a valid one.
    #[error("the artifact is not one that kubexm-bundle wrote: {}", one_line(.0))]
    Broken(String),
}

impl Artifact {
    /// The members of a bundle's file, without the signature, which is a referrer.
    ///
    /// # Errors
    /// sources.json cannot be read; no digest of it exists elsewhere.
    pub fn of(bundle: &Bundle) -> Result<Self, ArchiveError> {
        let mut layers = Vec::new();
        for member in bundle.members() {
            let digest = match (member.sha256, member.name.as_str()) {
                (Some(digest), _) => digest,
                (None, members::SOURCES) => Digest::of(bundle.sources_json()?.unwrap_or_default()),
                (None, _) => continue,
            };
            layers.push(Layer { name: member.name.clone(), digest, size: member.size });
        }
        Ok(Self { layers })
    }

    /// The bytes of its manifest: canonical JSON, the same for the same file.
    pub fn to_json(&self) -> Result<Vec<u8>, ArtifactError> {
        let layers: Vec<_> = self
            .layers
            .iter()
            .map(|layer| {
                json!({
                    "annotations": { TITLE: layer.name },
                    "digest": layer.digest,
                    "mediaType": media_type(&layer.name),
                    "size": layer.size,
                })
            })
            .collect();
        let bytes = manifest_json(ARTIFACT_TYPE, layers, None);
        match bytes.len() {
            size if size > MANIFEST_LIMIT => Err(ArtifactError::TooManyMembers { members: self.layers.len(), size }),
            _ => Ok(bytes),
        }
    }

    /// Reads an untrusted manifest. What comes out has only names that a bundle has, each once, and a
    /// sum of sizes that fits into 64 bits.
    pub fn parse(bytes: &[u8]) -> Result<Self, ArtifactError> {
        let document = Document::read(bytes)?;
        let found = document.artifact_type.as_deref().unwrap_or(&document.config.media_type);
        if found != ARTIFACT_TYPE {
            return Err(ArtifactError::NotABundle { found: shown(found) });
        }
        document.check_config()?;
        if document.subject.is_some() {
            return Err(ArtifactError::Broken("a bundle has no subject".to_owned()));
        }
        let layers: Vec<Layer> = document.layers.into_iter().map(Descriptor::layer).collect::<Result<_, _>>()?;
        let artifact = Self { layers };
        artifact.check_names()?;
        Ok(artifact)
    }

    fn check_names(&self) -> Result<(), ArtifactError> {
        let broken = |problem: String| Err(ArtifactError::Broken(problem));
        let mut seen = HashSet::with_capacity(self.layers.len());
        let mut sum: u64 = 0;
        for (at, layer) in self.layers.iter().enumerate() {
            let wanted = [members::MANIFEST, members::LAYOUT].get(at);
            let name = layer.name.as_str();
            if wanted.is_some_and(|wanted| *wanted != name) {
                return broken(format!("its layer {at} is {}", shown(name)));
            }
            let is_member = || {
                let blob = name.strip_prefix(members::BLOBS).map(Digest::from_hex);
                members::FIXED.contains(&name)
                    || name == members::SOURCES
                    || blob.is_some_and(|digest| digest == Ok(layer.digest))
            };
            if wanted.is_none() && !is_member() {
                return broken(format!("{} is not the name of a member, or not that of its own digest", shown(name)));
            }
            if wanted.is_some() && layer.size > DOCUMENT_LIMIT {
                return broken(format!("its {name} would have {} bytes", layer.size));
            }
            if !seen.insert(name) {
                return broken(format!("{name} is there twice"));
            }
            sum = match sum.checked_add(layer.size).filter(|sum| i64::try_from(*sum).is_ok()) {
                Some(sum) => sum,
                None => return broken("its layers are larger than any file can be".to_owned()),
            };
        }
        if self.layers.len() < 2 {
            return broken("manifest.json or layout.json is missing in it".to_owned());
        }
        Ok(())
    }

    /// Holds the layers against the two documents that they begin with: the members that the file has, each with the
    /// size and digest of the manifest, and no others.
    pub fn check(&self, manifest: &Manifest, layout: &Layout) -> Result<(), ArtifactError> {
        let broken = |problem: String| Err(ArtifactError::Broken(problem));
        let mut layers = self.layers.get(2..).unwrap_or_default();
        let sources = layers.split_last().filter(|(last, _)| last.name == members::SOURCES);
        if sources.map(|(last, _)| last.size) != layout.sources {
            return broken("its sources.json is not the one that layout.json describes".to_owned());
        }
        if let Some((_, rest)) = sources {
            layers = rest;
        }
        if layers.len() != layout.members.len() {
            return broken(format!("it has {} members, its layout.json {}", layers.len(), layout.members.len()));
        }
        let mut listed = manifest.members.iter();
        for (layer, stored) in layers.iter().zip(&layout.members) {
            if layer.name != stored.name {
                return broken(format!("{} is where layout.json has {}", layer.name, shown(&stored.name)));
            }
            // Both are in one order; what a delta leaves out is passed over.
            let Some(member) = listed.find(|member| member.name == layer.name) else {
                return broken(format!("manifest.json does not list {} there", layer.name));
            };
            if (member.sha256, member.size) != (layer.digest, layer.size) {
                return broken(format!("{} is not the one that manifest.json lists", layer.name));
            }
        }
        Ok(())
    }

    /// Bytes of all layers.
    pub fn size(&self) -> u64 {
        self.layers.iter().fold(0, |sum: u64, layer| sum.saturating_add(layer.size))
    }
}

fn media_type(name: &str) -> &'static str {
    match name {
        members::MANIFEST => MANIFEST_LAYER,
        members::LAYOUT => LAYOUT_LAYER,
        _ => MEMBER_LAYER,
    }
}

/// An artifact's manifest with the empty config; keys sorted, no blanks.
pub(crate) fn manifest_json(
    artifact_type: &str,
    layers: Vec<serde_json::Value>,
    subject: Option<serde_json::Value>,
) -> Vec<u8> {
    let mut manifest = json!({
        "artifactType": artifact_type,
        "config": { "digest": Digest::of(EMPTY), "mediaType": EMPTY_TYPE, "size": EMPTY.len() },
        "layers": layers,
        "mediaType": IMAGE_MANIFEST,
        "schemaVersion": 2,
    });
    if let Some(subject) = subject {
        manifest["subject"] = subject;
    }
    manifest.to_string().into_bytes()
}

/// An artifact's manifest as it came. Fields of other tools are passed over.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document {
    schema_version: u64,
    media_type: Option<String>,
    pub artifact_type: Option<String>,
    config: Descriptor,
    pub layers: Vec<Descriptor>,
    pub subject: Option<Descriptor>,
    // Both at once is how one set of bytes is made to mean two things (CVE-2021-41190).
    manifests: Option<serde::de::IgnoredAny>,
}

/// One descriptor.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: String,
    pub size: u64,
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "org.opencontainers.image.title")]
    title: Option<String>,
}

impl Document {
    pub fn read(bytes: &[u8]) -> Result<Self, ArtifactError> {
        if bytes.len() > MANIFEST_LIMIT {
            return Err(ArtifactError::Broken(format!("its manifest has {} bytes", bytes.len())));
        }
        let document: Self = serde_json::from_slice(bytes)
            .map_err(|e| ArtifactError::NotABundle { found: format!("something without a manifest of one ({e})") })?;
        let media_type = document.media_type.as_deref().unwrap_or(IMAGE_MANIFEST);
        if document.schema_version != 2 || media_type != IMAGE_MANIFEST || document.manifests.is_some() {
            return Err(ArtifactError::NotABundle { found: shown(media_type) });
        }
        Ok(document)
    }

    pub fn check_config(&self) -> Result<(), ArtifactError> {
        let empty = (EMPTY_TYPE, Ok(Digest::of(EMPTY)), EMPTY.len() as u64);
        if (self.config.media_type.as_str(), self.config.digest.parse(), self.config.size) == empty {
            return Ok(());
        }
        Err(ArtifactError::Broken("its config is not the empty one".to_owned()))
    }
}

impl Descriptor {
    pub fn layer(self) -> Result<Layer, ArtifactError> {
        let name = self.annotations.title;
        let name = name.ok_or_else(|| ArtifactError::Broken("a layer has no title".to_owned()))?;
        let digest =
            self.digest.parse().map_err(|_| ArtifactError::Broken(format!("{} is not a sha256", shown(&name))))?;
        Ok(Layer { name, digest, size: self.size })
    }
}

/// Foreign text in a message: short, quoted, without control characters.
fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(100).collect::<String>())
}

#[cfg(test)]
mod tests;
