//! The small members of a bundle: how they are read, and what questions about a bundle's meaning are asked of, wherever its
//! bytes are or were.

use std::path::Path;

use kubexm_spec::manifest::FORMAT;
use kubexm_spec::{Manifest, Sources};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{ArchiveError, TooManyValues, check_values, members};

/// The most bytes that a document of a bundle may have, manifest.json and index.json among them: a bundle of 100 000 members
/// needs a quarter of it.
pub const DOCUMENT_LIMIT: u64 = 64 << 20;

/// Why a document that states its format cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadDocument {
    /// Reading it would take more memory than any bundle needs.
    #[error(transparent)]
    TooManyValues(#[from] TooManyValues),
    /// No JSON, or without the format's number.
    #[error("states no format: {0}")]
    NoFormat(serde_json::Error),
    /// Of a format that came later.
    #[error("format {0}")]
    NewerFormat(u32),
    /// Of a format that is known, and yet not understood: where its bytes are certain to be as they were written, a newer
    /// program wrote them.
    #[error("{0}")]
    NotUnderstood(serde_json::Error),
}

impl UnreadDocument {
    /// Whether it was written by a newer program, when its bytes are certain to be as they were written.
    pub fn is_newer(&self) -> bool {
        matches!(self, Self::NewerFormat(_) | Self::NotUnderstood(_))
    }
}

/// Reads a manifest.json or layout.json, its format first. The caller has held its size against [`DOCUMENT_LIMIT`].
pub fn read_document<T: DeserializeOwned>(json: &[u8]) -> Result<T, UnreadDocument> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    check_values(json)?;
    let Format { format } = serde_json::from_slice(json).map_err(UnreadDocument::NoFormat)?;
    if format > FORMAT {
        return Err(UnreadDocument::NewerFormat(format));
    }
    serde_json::from_slice(json).map_err(UnreadDocument::NotUnderstood)
}

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

    /// The content of sources.json, padding included: a statement has its digest. None where it was left out, and in format 1.
    fn sources_json(&self) -> Result<Option<Vec<u8>>, ArchiveError> {
        match self.size_of(members::SOURCES) {
            Some(_) => self.document(members::SOURCES, DOCUMENT_LIMIT).map(Some),
            None => Ok(None),
        }
    }

    /// Where its artifacts are from; none where that was left out, and in format 1, whose manifest says it. Trusted as far as a
    /// signature's statement has its digest.
    fn sources(&self) -> Result<Option<Sources>, ArchiveError> {
        let Some(content) = self.sources_json()? else { return Ok(None) };
        let read = check_values(&content).map_err(|e| e.to_string()).and_then(|()| Sources::parse(&content));
        read.map(Some).map_err(|problem| {
            let (path, part) = (self.path().to_owned(), members::SOURCES.to_owned());
            ArchiveError::Damaged { path, part, offset: 0, problem }
        })
    }
}
