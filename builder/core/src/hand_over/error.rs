//! What can go wrong with a hand-over.

use std::io;
use std::path::{Path, PathBuf};

use kubexm_archive::{ArchiveError, DamageReport};
use kubexm_spec::{ExitCode, Platform, amount, amount_needed};

use crate::BuildError;
use crate::disk::fix;

/// Why there is no hand-over folder.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
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
    /// The folder holds something already.
    #[error("{} is not empty; name a new folder, or write into it all the same with --force", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// A file, or something else that holds no files.
    #[error("{} is not a folder; name another", path.display())]
    NotAFolder {
        /// What is there.
        path: PathBuf,
    },
    /// The folder it is to be made in.
    #[error("{} cannot be made: the folder {} does not exist; create it, or name another", folder.display(), parent.display())]
    NoParent {
        /// To be made.
        folder: PathBuf,
        parent: PathBuf,
    },
    /// The bundle's file has the same name.
    #[error("{} is the bundle's own name; name another folder", path.display())]
    BundleName {
        /// The folder.
        path: PathBuf,
    },
    /// Somebody else makes the same folder now.
    #[error("another program writes {} now; wait for it, or choose another folder", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The work folder exists and was not created by this program.
    #[error("{} was not created by a hand-over; move it away, or choose another folder", path.display())]
    InTheWay {
        /// Where the folder is made before it has its name.
        path: PathBuf,
    },
    /// The bundle lies in the folder that is to be written.
    #[error("{} lies in the folder that would be written, and inputs are never changed; name another folder", path.display())]
    Inside {
        /// One of its files.
        path: PathBuf,
    },
    /// Files of this name cannot lie on every stick.
    #[error(
        "{name:?} cannot be used as a file name on a USB stick: {problem}; give another name (hand-over: --name; build --hand-over: -o)"
    )]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// There is not enough room.
    #[error(
        "{} has {} free, and the hand-over needs {}; free space there, or name another folder",
        path.display(), amount(*free), amount_needed(*needed)
    )]
    NoRoom {
        /// Where the folder is to be.
        path: PathBuf,
        /// Free bytes.
        free: u64,
        /// Bytes to be written.
        needed: u64,
    },
    /// Nothing installs the bundle on a platform.
    #[error("there is no kubexm-install for {platform} in the bundle; name one with --installer FILE")]
    NoInstaller {
        /// A platform of the bundle.
        platform: Platform,
    },
    /// Somebody else has written there, or the file system answers with what it likes.
    #[error(
        "{} is not the bundle that was written there: another program has changed it, or its disk or server cannot be trusted; make \
         the folder on a disk of this machine, and bring it there with kubexm-bundle copy",
        path.display()
    )]
    AnotherBundle {
        /// Its name.
        path: PathBuf,
    },
    /// What was written is not right.
    #[error(transparent)]
    Damaged(#[from] DamageReport),
    /// Reading or writing the bundle failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A file that was given cannot be used.
    #[error(transparent)]
    Installer(#[from] BuildError),
    /// Nothing was signed.
    #[error("{problem}")]
    Sign {
        /// How the program ends on it.
        code: ExitCode,
        /// The signer's error.
        problem: String,
    },
}

/// Said of a full disk.
const FULL: &str = " (free space there, or name another folder)";

impl From<kubexm_files::OutputError> for HandOverError {
    fn from(error: kubexm_files::OutputError) -> Self {
        Self::Output(kubexm_files::NoOption(error))
    }
}

impl HandOverError {
    /// How a program ends on it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Io { .. } | Self::NoRoom { .. } => ExitCode::Disk,
            Self::NotEmpty { .. }
            | Self::NotAFolder { .. }
            | Self::NoParent { .. }
            | Self::BundleName { .. }
            | Self::InTheWay { .. }
            | Self::Inside { .. }
            | Self::Name { .. } => ExitCode::Usage,
            Self::Locked { .. } => ExitCode::HostLocked,
            Self::NoInstaller { .. } => ExitCode::Config,
            Self::AnotherBundle { .. } => ExitCode::BundleDamaged,
            Self::Damaged(report) => report.exit_code(),
            Self::Archive(error) => error.exit_code(),
            Self::Output(error) => error.0.exit_code(),
            Self::Installer(error) => error.exit_code(),
            Self::Sign { code, .. } => *code,
        }
    }
}

/// For `map_err`: what was tried, on what.
pub(super) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HandOverError {
    move |source| HandOverError::Io { action, path: path.to_owned(), source }
}
