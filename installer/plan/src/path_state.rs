//! What is at a path: the state of every op that writes files.

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase", deny_unknown_fields)]
pub enum PathEntry {
    /// Nothing.
    Absent,
    /// A regular file; the ledger keeps its bytes under the digest before it is replaced.
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
        /// Target of the link.
        target: String,
    },
    /// A device, socket or pipe: never replaced.
    Special,
}

/// An entry, and the parent folders that do not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PathState {
    /// Absolute path.
    pub path: String,
    /// The entry at the path.
    pub entry: PathEntry,
    /// Parent folders that do not exist, the deepest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// For a folder that a service fills: its content as relative paths, folders with a trailing `/`. None if it was
    /// not listed, has too many entries, or was filled by a service of kubexm already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Vec<String>>,
}

impl PathEntry {
    /// The digest, if it is a file.
    pub const fn digest(&self) -> Option<Digest> {
        if let Self::File { digest, .. } = self { Some(*digest) } else { None }
    }

    /// Whether it is a file with this content and mode.
    pub fn is(&self, wanted: Digest, wanted_mode: u32) -> bool {
        matches!(self, Self::File { digest, mode, .. } if *digest == wanted && *mode == wanted_mode)
    }
}
