//! Images in registries: what a name points at, as raw bytes with digests computed here, and their blobs.

mod access;
mod attached;
mod body;
mod client;
mod content;
mod credentials;
mod digest_of;
mod endpoint;
#[doc(hidden)]
pub mod fuzzing;
pub(crate) mod image;
mod login;
mod open_uploads;
mod pace;
mod push;
mod push_checks;
mod push_upload;
mod quota;
mod referrers;
mod registries;
pub(crate) mod resolve;
mod session;
mod tagged;

use std::path::PathBuf;

use async_trait::async_trait;
use kubexm_spec::lock::Descriptor;
use kubexm_spec::{Digest, Platform};

pub use attached::{Attached, cosign_tags};
/// What a [`Content`] in memory is.
pub use bytes::Bytes;
pub use client::OciRegistry;
pub use content::{Content, Outcome};
pub use credentials::Credentials;
pub use open_uploads::{OpenUpload, OpenUploads, PushOptions};
pub use pace::Pace;
pub use push::{PushedManifest, Repository};
pub use quota::Quota;
pub use referrers::{Referrers, referrers_tag};
pub use registries::RegistriesConf;

pub(crate) use endpoint::short;

use crate::{Progress, Store, TransportError};

/// Whether registries keep things of this type among their manifests, not among their blobs.
pub fn is_manifest(media_type: &str) -> bool {
    image::MANIFEST_TYPES.contains(&media_type)
}

/// The most bytes of a manifest or an index.
pub const MANIFEST_LIMIT: u64 = image::MANIFEST_LIMIT;

/// A repository an image may come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageCandidate {
    /// `registry.k8s.io`, `docker.io`, `10.0.0.5:5000`.
    pub registry: String,
    /// `kube-apiserver`, `library/busybox`.
    pub repository: String,
    /// Whether the registry is spoken to over plain http.
    pub plain_http: bool,
    /// A PEM file of CA certificates to trust for this one besides the usual roots.
    pub ca_file: Option<PathBuf>,
}

impl ImageCandidate {
    /// A repository over https with the usual roots.
    pub fn new(registry: impl Into<String>, repository: impl Into<String>) -> Self {
        Self { registry: registry.into(), repository: repository.into(), plain_http: false, ca_file: None }
    }

    /// `registry/repository`: how locks and sources of bundles name it.
    pub fn place(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }
}

/// What the place of an image in a folder begins with.
pub(crate) const FOLDER_PLACE: &str = "oci:";

/// A manifest or index as the registry sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawManifest {
    /// Its media type, digest (computed over `bytes`) and size.
    pub descriptor: Descriptor,
    /// The bytes as they came; parsed and written again they would have another digest.
    pub bytes: Vec<u8>,
}

/// What an image name points at, for one platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedImage {
    /// What the name points at: an index, or the manifest itself.
    pub target: Descriptor,
    /// Its bytes.
    pub target_bytes: Vec<u8>,
    /// Indexes between `target` and `manifest`, where an index names another index. Almost always empty.
    pub nested: Vec<RawManifest>,
    /// The platform's manifest; equals `target` where there is no index.
    pub manifest: Descriptor,
    /// Its bytes.
    pub manifest_bytes: Vec<u8>,
    /// The image's config, which says what platform it is really made for.
    pub config: Descriptor,
    /// Its bytes.
    pub config_bytes: Vec<u8>,
    /// Layers in the manifest's order.
    pub layers: Vec<Descriptor>,
    /// The registry and repository, or the folder, that answered.
    pub answered_by: String,
}

impl ResolvedImage {
    /// Puts index, manifest and config into the store; the layers are left to [`Registry::fetch_blobs`].
    pub fn keep(&self, store: &Store) -> Result<(), TransportError> {
        let pairs = [(&self.target, &self.target_bytes), (&self.manifest, &self.manifest_bytes)];
        let nested = self.nested.iter().map(|raw| (&raw.descriptor, &raw.bytes));
        for (descriptor, bytes) in pairs.into_iter().chain(nested).chain([(&self.config, &self.config_bytes)]) {
            if !store.holds(&descriptor.digest, descriptor.size)? {
                store.insert(bytes.as_slice(), Some(descriptor.digest))?;
                let local = self.answered_by.starts_with(FOLDER_PLACE);
                store.note_from(&descriptor.digest, if local { crate::LOCAL_FOLDER } else { &self.answered_by });
            }
        }
        Ok(())
    }

    /// Config and layers, in the manifest's order.
    pub fn blobs(&self) -> Vec<Descriptor> {
        std::iter::once(&self.config).chain(&self.layers).cloned().collect()
    }
}

/// Where images come from.
#[async_trait]
pub trait Registry: Send + Sync {
    /// Asks the candidates in order what `reference` (a tag, or `sha256:…`) is, for one platform. With `want`, the
    /// candidates are asked for that digest, whatever the tag points at now.
    ///
    /// The platform is read from the image's config: an index entry may lie.
    async fn resolve(
        &self,
        candidates: &[ImageCandidate],
        reference: &str,
        want: Option<Digest>,
        platform: Platform,
    ) -> Result<ResolvedImage, TransportError>;

    /// Brings blobs into the store, in parallel; those that are there are not fetched again. `progress` gets the bytes of
    /// all of them together.
    async fn fetch_blobs(
        &self,
        candidates: &[ImageCandidate],
        blobs: &[Descriptor],
        store: &Store,
        progress: &Progress<'_>,
    ) -> Result<(), TransportError>;
}
