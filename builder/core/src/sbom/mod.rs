//! A bill of materials of a bundle, in the two formats that tools read. Pure and without a clock: the same bundle gives
//! the same bytes, and what would be drawn at random elsewhere comes from the manifest's digest.

mod cyclonedx;
pub(crate) mod declared;
pub(crate) mod purl;
mod spdx;

use std::borrow::Cow;
use std::collections::BTreeMap;

use kubexm_manifests::Catalogue;
use kubexm_spec::manifest::Artifact;
use kubexm_spec::sources::ArtifactSources;
use kubexm_spec::{ArtifactKey, Digest, Kind, Manifest, Sources, depot};

pub use cyclonedx::cyclonedx;
pub use spdx::spdx;

/// The parts of a bundle that a bill of materials lists.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// What is in it.
    pub manifest: &'a Manifest,
    /// Digest of manifest.json: what the whole bundle is known by.
    pub digest: Digest,
    /// The catalogue that the bundle carries, for licences and origins.
    pub catalogue: &'a Catalogue,
    /// Sources of the artifacts; none where the bundle does not state them.
    pub sources: Option<&'a Sources>,
    /// Name and version of this program.
    pub tool: (&'a str, &'a str),
    /// Versions of `kubexm-install`, by digest; the manifest has none.
    pub installers: &'a BTreeMap<Digest, String>,
    /// SPDX expressions that images declare, by the digest of their manifest.
    pub licences: &'a BTreeMap<Digest, String>,
    /// SPDX identifier of this program's licence, which is that of the installer too.
    pub tool_licence: &'a str,
}

/// One artifact for one platform, in the words that all such documents share.
pub(crate) struct Component<'a> {
    pub artifact: &'a Artifact,
    /// `binary/kubeadm@linux/amd64`: once in a bundle.
    pub id: String,
    /// Of the artifact; empty where it has none.
    pub version: &'a str,
    /// Name without registry or path.
    pub name: Cow<'a, str>,
    /// Of the file, or of the image's manifest for the platform.
    pub digest: Digest,
    /// What was asked for: upstream's address, not a mirror's; none for what came from the builder's machine.
    pub origin: Option<String>,
    /// The addresses that answered, as far as the bundle says it.
    pub from: &'a [String],
    /// SPDX expression, where it is known.
    pub licence: Option<&'a str>,
    /// Package URL.
    pub purl: String,
}

/// Every artifact, in the manifest's order.
pub(crate) fn components<'a>(subject: &Subject<'a>) -> Vec<Component<'a>> {
    let sources = subject.sources.map(Sources::by_artifact);
    let places = |artifact: &Artifact| sources.as_ref()?.find(&artifact.key, artifact.platform);
    subject.manifest.artifacts.iter().map(|artifact| component(subject, artifact, places(artifact))).collect()
}

fn component<'a>(subject: &Subject<'a>, artifact: &'a Artifact, places: Option<&'a ArtifactSources>) -> Component<'a> {
    let id = match artifact.platform {
        Some(platform) => format!("{}@{platform}", artifact.key),
        None => artifact.key.to_string(),
    };
    let digest = artifact.manifest.unwrap_or(artifact.digest);
    let origin = origin(subject.catalogue, artifact, places);
    let from = places.map(|places| places.from.as_slice()).unwrap_or_default();
    let licence = match artifact.key {
        ArtifactKey::Installer => Some(subject.tool_licence),
        _ => subject.catalogue.licence(&artifact.key).or_else(|| subject.licences.get(&digest).map(String::as_str)),
    };
    let version = match (&artifact.key, artifact.version.is_empty()) {
        (ArtifactKey::Installer, true) => subject.installers.get(&digest).map_or("", String::as_str),
        _ => artifact.version.as_str(),
    };
    let (name, purl) = match (artifact.key.kind(), &artifact.key) {
        (_, ArtifactKey::Package { os, name }) => {
            (Cow::Borrowed(name.as_str()), purl::package(os, name, &artifact.version, &artifact.name))
        }
        (Kind::Image, _) => {
            let (repository, tag) = depot::split_reference(&artifact.name);
            let name = repository.rsplit('/').next().unwrap_or(repository);
            (Cow::Borrowed(name), purl::oci(repository, tag, &digest, artifact.platform))
        }
        _ => {
            let name = artifact.key.name();
            let purl = purl::generic(&name, version, &digest, origin.as_deref(), artifact.platform);
            (name, purl)
        }
    };
    Component { artifact, id, version, name, digest, origin, from, licence, purl }
}

/// Where upstream has it: by the bundle's own word, and where that was left out as far as it follows from what the artifact is.
fn origin(catalogue: &Catalogue, artifact: &Artifact, places: Option<&ArtifactSources>) -> Option<String> {
    let asked = || places.and_then(|places| places.asked.clone());
    match (&artifact.key, artifact.platform) {
        (ArtifactKey::Image(_) | ArtifactKey::FeatureImage(_) | ArtifactKey::ChartImage(_), _) => {
            Some(format!("oci://{}", artifact.name))
        }
        (ArtifactKey::ExtraImage(_), _) => asked().map(|_| format!("oci://{}", artifact.name)),
        (ArtifactKey::Binary(program), Some(platform)) => match catalogue.component(*program) {
            Some(component) => Some(component.url(&artifact.version, platform.arch)),
            None => asked(),
        },
        _ => asked(),
    }
}

/// A UUID of version 8 (RFC 9562, 5.8: made by a rule of one's own) from the first bytes of a digest.
fn uuid(digest: &Digest) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_bytes()[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_version_and_variant_and_follows_from_the_digest() {
        let digest = Digest::from_bytes([0xff; 32]);
        assert_eq!(uuid(&digest), "ffffffff-ffff-8fff-bfff-ffffffffffff");
        assert_ne!(uuid(&Digest::of(b"a")), uuid(&Digest::of(b"b")));
    }
}
