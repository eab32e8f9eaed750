//! The answers of [`crate::verify`].

use std::path::PathBuf;

use kubexm_spec::ExitCode;

/// Every byte was found right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Bytes of the file.
    pub bytes: u64,
    /// Members whose digests were computed, manifest.json and layout.json included.
    pub members: usize,
}

/// One place that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file it is in: the bundle's, or one of its volumes.
    pub file: PathBuf,
    /// The member, or `seek table`, `trailer`, `end of archive`.
    pub part: String,
    /// First byte in that file of the frame in which the damage is.
    pub offset: u64,
    /// Bytes of that frame, or of all frames of the member when it cannot be said in which the damage is.
    pub length: u64,
    /// What was found.
    pub problem: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { part, offset, length, problem, file } = self;
        if let Some((_, number)) = crate::volumes::split_name(file) {
            write!(f, "volume {number:03} ({}), ", file.display())?;
        }
        write!(f, "{part}, bytes {offset} to {}: {problem}", offset.saturating_add(*length))
    }
}

/// Everything that is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is damaged in {count} places, the first in {}; copy it again", path.display(), damages.first().map_or_else(String::new, ToString::to_string))]
pub struct DamageReport {
    /// The file.
    pub path: PathBuf,
    /// In the order of the file; at most a hundred.
    pub damages: Vec<Damage>,
    /// How many there are in all.
    pub count: u64,
}

impl DamageReport {
    /// How a program ends on it.
    pub const fn exit_code(&self) -> ExitCode {
        ExitCode::BundleDamaged
    }
}
