//! What is written into a bundle.

use std::io::{self, Cursor, Read};

use kubexm_spec::Digest;

use crate::{Encoding, members};

/// Opens the content of a member; called once, on another thread.
pub type Open<'a> = Box<dyn Fn() -> io::Result<Box<dyn Read + Send>> + Send + Sync + 'a>;

/// One member to be written.
pub struct Input<'a> {
    /// As in the manifest.
    pub name: String,
    /// In bytes, as in the manifest.
    pub size: u64,
    /// As in the manifest. Of sources.json, which the manifest does not list, it is not looked at.
    pub sha256: Digest,
    /// How to store it: [`crate::encoding_for`] chooses.
    pub encoding: Encoding,
    /// Gives its content.
    pub open: Open<'a>,
}

impl Input<'_> {
    /// A member whose content is in memory.
    pub fn bytes(name: impl Into<String>, content: Vec<u8>) -> Self {
        let (size, sha256, encoding) = (content.len() as u64, Digest::of(&content), crate::encoding_for(&content));
        let open: Open<'_> = Box::new(move || Ok(Box::new(Cursor::new(content.clone())) as Box<dyn Read + Send>));
        Self { name: name.into(), size, sha256, encoding, open }
    }

    /// sources.json whose content is known.
    pub fn sources(content: Vec<u8>) -> Self {
        Self::bytes(members::SOURCES, content).raw()
    }

    pub(crate) fn raw(self) -> Self {
        Self { encoding: Encoding::Raw, ..self }
    }
}
