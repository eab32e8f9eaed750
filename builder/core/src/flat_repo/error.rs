//! Why a folder cannot become a repository.

use std::path::{Path, PathBuf};

use kubexm_packages::trust::{SignError, TrustError};
use kubexm_spec::ExitCode;

/// Why a folder cannot become a repository.
#[derive(Debug, thiserror::Error)]
pub enum FlatError {
    /// What is there may not be replaced.
    #[error(transparent)]
    Output(#[from] kubexm_files::OutputError),
    /// Something of this machine failed.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// `read`, `write`.
        what: &'static str,
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// There is nothing to list.
    #[error("{} holds no .deb and no .rpm; put packages into it, or name the folder that has them with --from", .0.display())]
    Empty(PathBuf),
    /// Both families.
    #[error("{} holds .deb and .rpm files; a repository has packages of one family: use a folder for each", .0.display())]
    Mixed(PathBuf),
    /// Not the family that was asked for.
    #[error("{} holds packages of another family than the operating system that was named", .0.display())]
    WrongFamily(PathBuf),
    /// A file that is not a valid package.
    #[error("{file} {why}; it was not made a repository of")]
    Package {
        /// Its name.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// A package that the vendor did not sign.
    #[error("{file}: {source}")]
    Trust {
        /// Its name.
        file: String,
        /// Why it is not trusted.
        source: TrustError,
    },
    /// The metadata cannot be signed.
    #[error(transparent)]
    Sign(#[from] SignError),
}

impl FlatError {
    /// The exit code of a program that ends with it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Io { what: "read", source, .. } if source.kind() == std::io::ErrorKind::NotFound => ExitCode::Usage,
            Self::Io { .. } => ExitCode::Disk,
            Self::Empty(_) | Self::Mixed(_) | Self::WrongFamily(_) => ExitCode::Usage,
            Self::Package { .. } => ExitCode::OriginMismatch,
            Self::Trust { source, .. } => source.exit_code(),
            Self::Sign(error) => error.exit_code(),
            Self::Output(error) => error.exit_code(),
        }
    }
}

pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> FlatError {
    let path = path.to_owned();
    move |source| FlatError::Io { what, path, source }
}
