//! Taking things out of a bundle: what an item of the command line means, which files it becomes, and writing them.

mod archive;
mod find;
mod plan;
mod work;
mod write;

use std::path::PathBuf;

use kubexm_archive::{ArchiveError, Bundle};
use kubexm_spec::ExitCode;

pub use archive::oci_archive;
pub use find::{Item, find, find_all};
pub use plan::{Content, Output, Plan, check_asked, members, separate, single_layout};
pub use write::{Extracted, write};

/// Why something could not be taken out.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// No artifact, reference, digest or member is called so.
    #[error("there is no {item} in the bundle; the nearest: {}", nearest.join(", "))]
    NoSuchItem {
        /// As it was asked for.
        item: String,
        /// What is there and looks like it.
        nearest: Vec<String>,
    },
    /// There, but not for the platform.
    #[error("{item} is not in the bundle for {wanted}; it is for: {}", platforms.join(", "))]
    NotForPlatform {
        /// As it was asked for.
        item: String,
        /// As it was asked for.
        wanted: String,
        /// Platforms that it is there for.
        platforms: Vec<String>,
    },
    /// One file for each of several platforms.
    #[error("{item} is in the bundle for {}; choose one with --platform", platforms.join(" and "))]
    Ambiguous {
        /// As it was asked for.
        item: String,
        /// Platforms that it is there for.
        platforms: Vec<String>,
    },
    /// An image where bytes are wanted, or bytes where images are.
    #[error("{item} is {what}")]
    WrongKind {
        /// As it was asked for.
        item: String,
        /// What it is, and what to do.
        what: &'static str,
    },
    /// Two items become one file.
    #[error("two items would both become {}; extract them one after the other, into two folders", path.display())]
    Clash {
        /// Below the folder.
        path: PathBuf,
    },
    /// Something is there already.
    #[error("{} already exists{}; choose another folder, or overwrite with --force", path.display(), more(*others))]
    Exists {
        /// The first of them.
        path: PathBuf,
        /// How many more.
        others: usize,
    },
    /// The bundle that is read would be replaced.
    #[error("{} is read, and {} would replace it; choose another place", file.display(), path.display())]
    Input {
        /// A file of the bundle or of a base.
        file: PathBuf,
        /// What would be written.
        path: PathBuf,
    },
    /// A name in the manifest would lead out of the folder, or it is hidden or a path and not the key's own.
    #[error(
        "the bundle calls a file {name:?}, which is not its own or not the name of a file: do not trust this bundle"
    )]
    UnsafeName {
        /// As the manifest has it.
        name: String,
    },
    /// A hidden name or a path that nobody has typed.
    #[error("{item} is {key}, which would be written as {name:?}, a hidden file or a path: ask for it by its key")]
    NotAskedFor {
        /// As it was asked for.
        item: String,
        /// The artifact.
        key: String,
        /// As the manifest has it.
        name: String,
    },
    /// What is to be filled is a file.
    #[error("{} is not a folder; name the folder to write to with -C", path.display())]
    TargetNotAFolder { path: PathBuf },
    /// A folder below the target is a link, or no folder.
    #[error("{} is a link or not a folder, and its target may be elsewhere; remove it", path.display())]
    NotAFolder { path: PathBuf },
    /// The work folder exists and was not created by this program.
    #[error("{} was not created by an extract; move it away, or choose another folder", path.display())]
    InTheWay {
        /// The folder that is filled.
        path: PathBuf,
    },
    /// Another program fills the same folder now.
    #[error("another program writes {} now; wait for it, or choose another folder", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The bundle holds an OCI document that cannot be read.
    #[error("{member} of the bundle is not an OCI document: {reason}")]
    Document {
        /// Member name.
        member: String,
        /// What is wrong.
        reason: String,
    },
    /// The operating system refused something.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A delta leaves it out.
    #[error("{} is a delta and leaves out {name}; give the bundle that has it with --base", path.display())]
    LeftOut {
        /// The delta.
        path: PathBuf,
        /// The member.
        name: String,
    },
    /// What is there may not be replaced, or the file could not be written.
    #[error(transparent)]
    Output(kubexm_files::NoOption),
    /// Reading the bundle failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

fn more(others: usize) -> String {
    if others == 0 { String::new() } else { format!(", and {others} more") }
}

impl From<kubexm_files::OutputError> for ExtractError {
    fn from(error: kubexm_files::OutputError) -> Self {
        Self::Output(kubexm_files::NoOption(error))
    }
}

impl ExtractError {
    /// The same, but for a member that is missing since the bundle is a delta: that is reported as such.
    #[must_use]
    pub fn of_delta(self, bundle: &Bundle) -> Self {
        match self {
            Self::Archive(ArchiveError::NoSuchMember { path, name })
                if bundle.left_out().any(|member| member.name == name) =>
            {
                Self::LeftOut { path, name }
            }
            other => other,
        }
    }

    /// How a program ends on it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::NoSuchItem { .. } | Self::NotForPlatform { .. } | Self::LeftOut { .. } => ExitCode::BundleIncomplete,
            Self::Ambiguous { .. }
            | Self::WrongKind { .. }
            | Self::NotAskedFor { .. }
            | Self::Clash { .. }
            | Self::Exists { .. }
            | Self::Input { .. }
            | Self::InTheWay { .. }
            | Self::TargetNotAFolder { .. }
            | Self::NotAFolder { .. } => ExitCode::Usage,
            Self::Locked { .. } => ExitCode::HostLocked,
            Self::UnsafeName { .. } | Self::Document { .. } => ExitCode::BundleDamaged,
            Self::Io { .. } => ExitCode::Disk,
            Self::Output(error) => error.0.exit_code(),
            Self::Archive(error) => error.exit_code(),
        }
    }
}

/// For `map_err`: what was tried, on what. An error of the bundle that a reader carries comes out as itself.
fn io_error(action: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> ExtractError {
    move |source| match source.downcast::<ArchiveError>() {
        Ok(error) => ExtractError::Archive(error),
        Err(source) => ExtractError::Io { action, path: path.to_owned(), source },
    }
}
