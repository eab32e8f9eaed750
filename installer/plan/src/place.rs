//! What is at a path: the state of every op that writes files.

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase", deny_unknown_fields)]
pub enum Entry {
    /// Nothing.
    Absent,
    /// A regular file; the ledger keeps its bytes under the digest before we replace it.
    File {
        /// Digest of its bytes.
        digest: Digest,
        /// Permission bits.
        mode: u32,
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
    },
    /// A directory.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// What it says.
        target: String,
    },
    /// A device, socket or pipe: never ours to replace.
    Special,
}

/// An entry, and the parents that had to be made for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Place {
    /// Absolute path.
    pub path: String,
    /// What is there.
    pub entry: Entry,
    /// Parents that did not exist, the deepest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Of a folder that a service fills: what was in it, relative to it, folders with a `/` at the end. None: nobody looked,
    /// there was too much, or it was filled by a service of kubexm already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Vec<String>>,
}

impl Entry {
    /// The digest, when it is a file.
    pub const fn digest(&self) -> Option<Digest> {
        if let Self::File { digest, .. } = self { Some(*digest) } else { None }
    }

    /// Whether it is a file with this content and mode.
    pub fn is(&self, wanted: Digest, wanted_mode: u32) -> bool {
        matches!(self, Self::File { digest, mode, .. } if *digest == wanted && *mode == wanted_mode)
    }
}
