//! What can go wrong with a bundle's bytes, and the exit code that each answer has.

use std::io;
use std::path::PathBuf;

use kubexm_files::OutputError;
use kubexm_spec::{ExitCode, one_line};

/// Why a bundle could not be written, opened or read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The operating system refused something.
    #[error("cannot {action} {}{}", path.display(), room(source))]
    Io {
        /// What was tried: `open`, `write`, `rename` …
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// No file or folder has the name, and no volume `NAME.001` lies beside it.
    #[error("{} does not exist{}", path.display(), similar(near))]
    NoSuchFile {
        /// As it was named.
        path: PathBuf,
        /// Bundles in its folder whose names are alike.
        near: Vec<PathBuf>,
    },
    /// The file is something else.
    #[error("{} is not a bundle: {reason}; give a file that kubexm-bundle build wrote", path.display())]
    NotABundle {
        /// The file.
        path: PathBuf,
        /// What it looks like instead.
        reason: String,
    },
    /// The file ends too early.
    #[error("{} is truncated: it ends at byte {at}, before its seek table; copy it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        at: u64,
    },
    /// A newer program wrote it.
    #[error("{} is of a newer format: {}; use the kubexm that came with it", path.display(), one_line(what))]
    Newer {
        /// The file.
        path: PathBuf,
        /// What this program does not know.
        what: String,
    },
    /// The format names it, this program cannot read it yet.
    #[error("{} uses {feature}: known, not supported yet; use a bundle built in full and in one file", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The part of the format.
        feature: &'static str,
    },
    /// A byte is not what it must be.
    #[error("{} is damaged in {part}, at byte {offset}: {}; copy it again{}", path.display(), one_line(problem), or_sign(part))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The member, or `seek table`, `trailer`, `end of archive`.
        part: String,
        /// Where in the file, in bytes.
        offset: u64,
        /// What was found.
        problem: String,
    },
    /// The volumes that were given are not those of one bundle.
    #[error("{}: {problem}", path.display())]
    Volumes {
        /// The volume, or the bundle's name without a number.
        path: PathBuf,
        /// Which are missing, doubled, cut or foreign, and what to do.
        problem: String,
    },
    /// A volume of a split bundle is not there, or ends too early.
    #[error("{}: {problem}", path.display())]
    VolumeMissing {
        /// The volume that is cut, or the bundle's name without a number.
        path: PathBuf,
        /// The volumes that are missing or cut; of those behind the last one that is there, only the first.
        missing: Vec<PathBuf>,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A delta was given without the bundle that has the rest, or with another.
    #[error("{} is a delta and leaves out {count} blobs that {}{}", path.display(), lacking(bases), first.iter().map(|name| format!("\n- {name}")).collect::<String>())]
    BaseLacks {
        /// The delta.
        path: PathBuf,
        /// The bundles that were looked into.
        bases: Vec<PathBuf>,
        /// How many are in none of them.
        count: usize,
        /// The names of the first of them.
        first: Vec<String>,
    },
    /// The bytes that are wanted can only be made by another compressor.
    #[error("{} was written with {}, and this program has {own}: it would write other bytes; use the kubexm-bundle that wrote it", path.display(), one_line(found))]
    EncoderMismatch {
        /// The bundle.
        path: PathBuf,
        /// Its compressor.
        found: String,
        /// Ours.
        own: String,
    },
    /// The bundle has no such member.
    #[error("{} has no member {name}", path.display())]
    NoSuchMember {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        name: String,
    },
    /// A member is larger than the caller's memory limit.
    #[error("{name} in {} has {size} bytes, more than the {limit} bytes that such a member may have", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The member.
        name: String,
        /// Its size in bytes.
        size: u64,
        /// The most that was allowed, in bytes.
        limit: u64,
    },
    /// A document passed with a stream, and is gone.
    #[error("{name} in {} ({size} bytes) was not kept: of a stream, only {kept} bytes of JSON documents of one frame each are; give the bundle as a file", path.display())]
    NotKept {
        /// What the stream is called.
        path: PathBuf,
        /// The member.
        name: String,
        /// Its size in bytes.
        size: u64,
        /// The most that is kept, in bytes.
        kept: u64,
    },
    /// A blob was asked for from beyond its end.
    #[error("{name} has {size} bytes, none at offset {offset}")]
    BeyondEnd {
        /// The member.
        name: String,
        /// Its size in bytes.
        size: u64,
        /// The offset that was asked for.
        offset: u64,
    },
    /// What is to be written contradicts itself: a fault of the caller.
    #[error("this bundle cannot be written: {}", one_line(problem))]
    Unwritable {
        /// Which rule of the format is broken, by what.
        problem: String,
    },
    /// Volumes of this size cannot hold the bundle.
    #[error("volumes of {split} bytes are too small: each must hold a whole frame (up to 8 MiB, and more of a group of programs), and there are at most 999 of them; give at least --split {}M", fits.div_ceil(1 << 20))]
    SplitTooSmall {
        /// What was asked for, in bytes.
        split: u64,
        /// What does, in bytes.
        fits: u64,
    },
    /// An input does not match the manifest.
    #[error("{name} does not match the manifest: {problem}; remove the cached file and fetch it again")]
    InputMismatch {
        /// The member.
        name: String,
        /// What was found instead.
        problem: String,
    },
    /// An input cannot be read.
    #[error("cannot read {name} while packing it")]
    InputUnreadable {
        /// The member.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The signatures of a bundle cannot be put where nothing may be written.
    #[error("{} is not writable; sign a copy, or put the signature into a file of its own with --detached", path.display())]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Somebody else signs the same bundle now, or has put another in its place.
    #[error("another program signs {} now, or has just replaced it; try again", path.display())]
    BeingSigned {
        /// The file.
        path: PathBuf,
    },
    /// More signatures than a bundle holds.
    #[error(transparent)]
    RoomFull(#[from] crate::signature_slot::RoomFull),
    /// What is under the name may not be replaced, or the name could not be given.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Somebody else writes the same file now.
    #[error("another build writes {} now; wait for it, or choose another name", target.display())]
    Locked {
        /// The file that would be written.
        target: PathBuf,
    },
}

/// What to do about a full disk; nothing is known about other causes.
fn room(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => " (free space there, or write to another folder)",
        _ => "",
    }
}

fn similar(near: &[PathBuf]) -> String {
    let names: Vec<_> = near.iter().map(|path| path.display().to_string()).collect();
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", names.join(" or ")) }
}

/// A signing that was cut off is fixed by signing.
fn or_sign(part: &str) -> &'static str {
    if part == crate::members::SIGNATURE { ", or sign it again" } else { "" }
}

fn lacking(bases: &[PathBuf]) -> String {
    if bases.is_empty() {
        return "its base has; give the base with --base".to_owned();
    }
    let names: Vec<_> = bases.iter().map(|base| base.display().to_string()).collect();
    format!("{} does not have; give the base it was built on with --base:", names.join(" and "))
}

impl ArchiveError {
    /// How a program ends on it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::InputUnreadable { source, .. } => Self::inside(source).map_or(ExitCode::Disk, Self::exit_code),
            Self::Io { .. } | Self::InputMismatch { .. } => ExitCode::Disk,
            Self::NoSuchFile { .. } => ExitCode::NoSuchBundle,
            Self::NotABundle { .. } => ExitCode::NotABundle,
            Self::Truncated { .. } | Self::VolumeMissing { .. } => ExitCode::BundleTruncated,
            Self::Newer { .. } | Self::EncoderMismatch { .. } => ExitCode::BundleNewer,
            Self::Unsupported { .. } => ExitCode::Unsupported,
            Self::Damaged { .. } | Self::TooLarge { .. } => ExitCode::BundleDamaged,
            Self::NoSuchMember { .. } | Self::Volumes { .. } | Self::BaseLacks { .. } | Self::NotKept { .. } => {
                ExitCode::BundleIncomplete
            }
            Self::BeyondEnd { .. } | Self::Unwritable { .. } => ExitCode::Internal,
            Self::Locked { .. } | Self::BeingSigned { .. } => ExitCode::HostLocked,
            Self::RoomFull(_) => ExitCode::Usage,
            Self::NotWritable { .. } => ExitCode::Disk,
            Self::SplitTooSmall { .. } => ExitCode::Usage,
            Self::Output(error) => error.exit_code(),
        }
    }

    /// The volumes that have to be brought, or copied again.
    pub fn missing_volumes(&self) -> &[PathBuf] {
        match self {
            Self::VolumeMissing { missing, .. } => missing,
            _ => &[],
        }
    }

    /// The error of a bundle that was read as an input, out of what its reader gave.
    fn inside(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Readers of members are [`std::io::Read`]: the error travels inside, and comes out with `into_inner`.
    pub(crate) fn into_io(self) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, self)
    }
}
