//! What questions about a bundle's meaning are asked of, wherever its bytes are or were.

use std::path::Path;

use kubexm_spec::Manifest;

use crate::ArchiveError;

/// The small members of a bundle: texts, index.json, manifests.
pub trait Documents {
    /// What messages call the bundle.
    fn path(&self) -> &Path;
    /// What is in it.
    fn manifest(&self) -> &Manifest;
    /// Size in bytes of a member that is there.
    fn size_of(&self, name: &str) -> Option<u64>;
    /// The content of a member of at most `limit` bytes.
    fn document(&self, name: &str, limit: u64) -> Result<Vec<u8>, ArchiveError>;
}
