//! What the controller asks a control plane for when it makes a backup, and what that answers.

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

/// How many bytes of an archive one answer has at most.
pub const CHUNK: u64 = 1 << 20;

/// A request. Files are named by the backup's own name, and are nowhere but in [`crate::op::SNAPSHOTS`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "backup", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum BackupAsk {
    /// Takes a snapshot of etcd, verifies it, and writes it with PKI and configuration into an archive.
    Make {
        /// Letters, digits, dashes and dots.
        name: String,
        /// Public key (age) that the archive is encrypted for.
        recipient: String,
    },
    /// Reads the archive.
    Read {
        /// As in `Make`.
        name: String,
        /// Offset in bytes.
        offset: u64,
    },
    /// Deletes the archive.
    Forget {
        /// As in `Make`.
        name: String,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupAnswer {
    /// To `Make`.
    Made {
        /// The archive.
        archive: Archive,
        /// The snapshot in it.
        etcd: SnapshotFacts,
    },
    /// To `Read`: up to [`CHUNK`] bytes, none at the end.
    Bytes {
        /// Encrypted.
        bytes: Vec<u8>,
    },
    /// To `Forget`.
    Forgotten,
}

/// An encrypted archive (age, tar).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Archive {
    /// Of its bytes.
    pub sha256: Digest,
    /// In bytes.
    pub size: u64,
}

/// What is in a snapshot of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SnapshotFacts {
    /// Revision of etcd's data.
    pub revision: i64,
    /// Number of keys.
    pub keys: u64,
    /// Size of the snapshot in bytes.
    pub size: u64,
}

/// Name of the snapshot in an archive.
pub const SNAPSHOT_MEMBER: &str = "etcd.db";

/// Whether a name can be one of a file, and of no other folder's.
pub fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    !name.is_empty() && name.len() <= 128 && name.chars().all(plain) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn a_name_leads_to_no_other_folder() {
        assert!(is_plain("demo-20260101T000000Z"));
        for name in ["", ".x", "..", "a/b", "/etc/passwd", "a b", "a\0b", &"x".repeat(129)] {
            assert!(!is_plain(name), "{name:?}");
        }
    }
}
