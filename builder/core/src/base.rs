//! What the target side already has: the base of a delta.

use std::collections::HashSet;

use kubexm_archive::{Bundle, TooManyValues, check_values};
use kubexm_spec::inventory::{Inventory, InventoryError};
use kubexm_spec::{Digest, Manifest};

/// Blobs that need not be carried again.
#[derive(Clone, Debug, Default)]
pub struct Base {
    /// Digest of the manifest of the bundle that has them; none for an inventory.
    pub manifest: Option<Digest>,
    blobs: HashSet<Digest>,
}

/// Why a text is no base.
#[derive(Debug, thiserror::Error)]
pub enum BaseError {
    /// Neither form.
    #[error("it is neither a bundle, nor a manifest.json, nor an inventory")]
    Unknown,
    /// It says it is an inventory.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// It would take far more memory than any manifest or inventory does.
    #[error("it {0}")]
    Values(#[from] TooManyValues),
}

impl Base {
    /// All that the bundle is about; what a delta leaves out is present on the target side as well.
    pub fn of_bundle(bundle: &Bundle) -> Self {
        Self::of_manifest(bundle.manifest(), bundle.manifest_digest())
    }

    /// A manifest.json, or an inventory. The caller has held the size against a limit.
    pub fn of_text(text: &[u8]) -> Result<Self, BaseError> {
        check_values(text)?;
        if let Ok(manifest) = serde_json::from_slice::<Manifest>(text) {
            return Ok(Self::of_manifest(&manifest, Digest::of(text)));
        }
        let value: serde_json::Value = serde_json::from_slice(text).map_err(|_| BaseError::Unknown)?;
        if value.get("schema").is_none() {
            return Err(BaseError::Unknown);
        }
        let inventory = Inventory::parse(text)?;
        Ok(Self { manifest: None, blobs: inventory.blobs.into_iter().collect() })
    }

    /// Whether a blob is there.
    pub fn has(&self, digest: &Digest) -> bool {
        self.blobs.contains(digest)
    }

    fn of_manifest(manifest: &Manifest, digest: Digest) -> Self {
        let blobs = manifest.members.iter().filter(|member| member.name.starts_with(kubexm_archive::members::BLOBS));
        Self { manifest: Some(digest), blobs: blobs.map(|member| member.sha256).collect() }
    }
}
