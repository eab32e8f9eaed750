//! What can go wrong between a bundle and a registry.

use kubexm_archive::{ArchiveError, Layout};
use kubexm_spec::{ExitCode, one_line};
use kubexm_transport::TransportError;

use super::artifact::ArtifactError;

/// Why a bundle was not pushed or pulled.
#[derive(Debug, thiserror::Error)]
pub enum OciError {
    /// What is in the registry, or would be put there.
    #[error("{place}: {source}")]
    Artifact {
        /// Registry and repository, with tag or digest.
        place: String,
        /// What is wrong with it.
        source: ArtifactError,
    },
    /// The way to the registry, or this machine's disk.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The bundle's file.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// There is no such tag or digest.
    #[error("{place}: there is no such tag or digest; `kubexm-bundle push` puts one there")]
    Missing {
        /// Registry and repository, with tag or digest.
        place: String,
    },
    /// The same bytes cannot be made here.
    #[error(
        "{place} was written with the encoder {:?}, and this program has {:?}: it would make another file; use the \
         kubexm-bundle of that version, or give --recode for a file with the same content and signatures and other bytes",
        one_line(theirs),
        Layout::own_encoder()
    )]
    Encoder {
        /// Registry and repository, with tag or digest.
        place: String,
        /// As layout.json names it.
        theirs: String,
    },
    /// An internal data structure could not be serialized.
    #[error("cannot write {what} as text: {reason}")]
    Encode {
        what: &'static str,
        /// The writer's error.
        reason: String,
    },
    /// A task of this program died.
    #[error("a worker of this program died: {0}")]
    Worker(String),
}

impl OciError {
    /// The exit code of a program that ends with it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Artifact { source: ArtifactError::NotABundle { .. }, .. } => ExitCode::NotABundle,
            Self::Artifact { source: ArtifactError::Broken(_), .. } => ExitCode::OriginMismatch,
            Self::Artifact { source: ArtifactError::TooManyMembers { .. }, .. } => ExitCode::Usage,
            // The bundle that was read from, not the disk, is what is damaged.
            Self::Transport(TransportError::Unreadable { source, .. }) => {
                let inner = source.get_ref().and_then(|inner| inner.downcast_ref::<ArchiveError>());
                inner.map_or(ExitCode::Disk, ArchiveError::exit_code)
            }
            Self::Transport(error) => error.exit_code(),
            Self::Archive(error) => error.exit_code(),
            Self::Missing { .. } => ExitCode::OriginMissing,
            Self::Encoder { .. } => ExitCode::BundleNewer,
            Self::Encode { .. } | Self::Worker(_) => ExitCode::Internal,
        }
    }
}
