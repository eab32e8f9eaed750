//! The answers of [`crate::verify`].

use std::path::{Path, PathBuf};

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

impl Damage {
    /// One line about it. The file is named unless it is `bundle`, which the reader already knows.
    pub fn describe_for(&self, bundle: &Path) -> String {
        let Self { part, offset, length, problem, file } = self;
        let place = match crate::volumes::split_name(file) {
            Some((_, number)) => format!("volume {number:03} ({}), ", file.display()),
            None if file != bundle => format!("{}, ", file.display()),
            None => String::new(),
        };
        format!("{place}{part}, bytes {offset} to {}: {problem}", offset.saturating_add(*length))
    }
}

/// Everything that is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is damaged in {count} places, the first in {}; copy it again", path.display(), damages.first().map_or_else(String::new, |damage| damage.describe_for(path)))]
pub struct DamageReport {
    /// The file.
    pub path: PathBuf,
    /// In the order of the file; at most a hundred.
    pub damages: Vec<Damage>,
    /// How many there are in all.
    pub count: u64,
    /// Whether the bytes end too early; a file that does is not even opened, of a stream it is reported in the end.
    pub truncated: bool,
}

impl DamageReport {
    /// How a program ends on it.
    pub const fn exit_code(&self) -> ExitCode {
        if self.truncated { ExitCode::BundleTruncated } else { ExitCode::BundleDamaged }
    }
}
