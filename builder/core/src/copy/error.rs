//! What can go wrong with a copy.

use std::io;
use std::path::{Path, PathBuf};

use kubexm_archive::ArchiveError;
use kubexm_spec::{ExitCode, amount, amount_needed};

use crate::disk::fix;

/// Why a bundle was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// What is there may not be replaced.
    #[error(transparent)]
    Output(kubexm_files::NoOption),
    /// The operating system refused something.
    #[error("cannot {action} {}{}", path.display(), fix(source, FULL))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The bundle lies in no file of this machine.
    #[error("{} is not in a file on this machine; fetch it first, with pull or join", path.display())]
    NoFiles {
        /// Its address.
        path: PathBuf,
    },
    /// The target cannot be copied into.
    #[error("{} is not a folder; give the folder or mount point to copy into", path.display())]
    NotAFolder {
        /// The target.
        path: PathBuf,
    },
    /// The files lie there already, as themselves.
    #[error("{} is inside the target; give another folder", path.display())]
    SameFolder {
        /// One of the files.
        path: PathBuf,
    },
    /// Two files would get one name.
    #[error("{} and {} have the same name and would overwrite each other; put them into one folder first", one.display(), other.display())]
    SameName {
        /// The first.
        one: PathBuf,
        /// The second.
        other: PathBuf,
    },
    /// What lies beside the bundle lists a file that is not there.
    #[error("{} lists {name}, which is not beside it; bring that too, or copy the bundle without its sums", sums.display())]
    Missing {
        /// `NAME.sums`.
        sums: PathBuf,
        /// What it lists.
        name: String,
    },
    /// The sums name what could lie anywhere.
    #[error("{} lists {name:?}, which is not the name of a file beside it; create the sums again", sums.display())]
    Name {
        /// `NAME.sums`.
        sums: PathBuf,
        /// What it lists.
        name: String,
    },
    /// The file to be copied is damaged already.
    #[error("{} does not have the sum that {} lists; it was not copied; get it again", path.display(), sums.display())]
    SourceDamaged {
        /// The file.
        path: PathBuf,
        /// `NAME.sums`.
        sums: PathBuf,
    },
    /// The target's file system holds no file of this size.
    #[error(
        "{} has {}, and {} is {system}, where a file has at most {}; split the bundle: \
         kubexm-bundle join --split 4095M -o NEW/NAME.tar.zst {} (or build it with --split 4095M), and copy that",
        path.display(), amount_needed(*size), target.display(), amount(*limit), path.display()
    )]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The target folder.
        target: PathBuf,
        /// What people call the file system.
        system: &'static str,
        /// Bytes.
        limit: u64,
    },
    /// There is not enough room.
    #[error(
        "{} has {} free, and {} are needed; free space there, or split the bundle over several media{}",
        target.display(), amount(*free), amount_needed(*needed), rooms(replaced)
    )]
    NoRoom {
        /// The target folder.
        target: PathBuf,
        /// Free bytes.
        free: u64,
        /// Bytes to be written.
        needed: u64,
        /// Files there that would be replaced, each of which stays until the new one is whole.
        replaced: Vec<PathBuf>,
    },
    /// Volumes of another bundle lie there under the same name.
    #[error("{} holds {} under the name of this bundle, and they do not belong to it: a reader would mix them up; remove them first", target.display(), names.join(", "))]
    Foreign {
        /// The target folder.
        target: PathBuf,
        /// The files.
        names: Vec<String>,
    },
    /// Other files lie there under names that the copy brings.
    #[error("{} holds {}, which would be replaced and is not an earlier copy of this bundle; move it away, name another folder, or give --force", target.display(), names.join(", "))]
    Occupied {
        /// The target folder.
        target: PathBuf,
        /// The files.
        names: Vec<String>,
    },
    /// What was read back is not what was written.
    #[error(
        "{} returns other bytes than were written to it, at byte {offset}: the medium, its reader or the cable is bad; \
         use another one",
        path.display()
    )]
    Medium {
        /// The file.
        path: PathBuf,
        /// Where the first piece that differs begins, in bytes.
        offset: u64,
    },
    /// Somebody else copies there now.
    #[error("another program writes {} now; wait for it, or choose another folder", path.display())]
    Locked {
        /// The file that would be written.
        path: PathBuf,
    },
    /// The sums cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Said of a full medium.
const FULL: &str = " (free space there, then copy again: it continues)";

fn rooms(replaced: &[PathBuf]) -> String {
    if replaced.is_empty() {
        return String::new();
    }
    let names: Vec<_> = replaced.iter().map(|path| path.display().to_string()).collect();
    format!("; {} will be replaced and may be removed first", names.join(", "))
}

impl From<kubexm_files::OutputError> for CopyError {
    fn from(error: kubexm_files::OutputError) -> Self {
        Self::Output(kubexm_files::NoOption(error))
    }
}

impl CopyError {
    /// How a program ends on it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Io { .. } | Self::NoRoom { .. } | Self::FileTooLarge { .. } | Self::Medium { .. } => ExitCode::Disk,
            Self::NoFiles { .. } | Self::NotAFolder { .. } | Self::SameFolder { .. } | Self::SameName { .. } => {
                ExitCode::Usage
            }
            Self::Foreign { .. } | Self::Occupied { .. } => ExitCode::Usage,
            Self::Missing { .. } => ExitCode::BundleIncomplete,
            Self::Name { .. } | Self::SourceDamaged { .. } => ExitCode::BundleDamaged,
            Self::Locked { .. } => ExitCode::HostLocked,
            Self::Archive(error) => error.exit_code(),
            Self::Output(error) => error.0.exit_code(),
        }
    }
}

/// For `map_err`: what was tried, on what.
pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CopyError {
    move |source| CopyError::Io { action, path: path.to_owned(), source }
}
