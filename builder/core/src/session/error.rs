//! Why a stage before the build cannot be done, and which exit code that is.

use std::io;
use std::path::PathBuf;

use kubexm_archive::ArchiveError;
use kubexm_files::{InputError, MaterialError, OutputError};
use kubexm_manifests::os::UnknownOs;
use kubexm_manifests::{CatalogueError, RequireError, Zone};
use kubexm_packages::trust::SignError;
use kubexm_signing::SigningError;
use kubexm_spec::yaml::Problems;
use kubexm_spec::{Arch, ExitCode, ExitError, error_chain, names};
use kubexm_transport::TransportError;

use crate::BuildError;
use crate::copy::CopyError;
use crate::credentials::Found;
use crate::extract::ExtractError;
use crate::flat_repo::FlatError;
use crate::hand_over::HandOverError;
use crate::images_list::BadLine;
use crate::oci::OciError;
use crate::origins::packages::PackagesError;
use crate::packages::WrongMirror;

/// An error of a [`super::Session`].
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No folder for a cache is known.
    #[error("neither {} nor HOME is set: set one, or give --cache", names::HOME_ENV)]
    NoHome,
    /// A path begins with `~`.
    #[error("{} cannot be found: HOME is not set; give the whole path", path.display())]
    NoUserHome {
        /// As written.
        path: PathBuf,
    },
    /// A file of the user cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// cluster.yaml, or a zone file, is not what it should be.
    #[error("{name} has problems:\n{problems}")]
    Problems {
        /// The file, or the option that stands for one.
        name: String,
        /// All of them.
        problems: Problems,
    },
    /// An overlay of the catalogue cannot be used.
    #[error("{}: {source}", path.display())]
    Overlay {
        /// Its file.
        path: PathBuf,
        source: Box<CatalogueError>,
    },
    /// The cluster asks for what the catalogue does not have.
    #[error(transparent)]
    Require(#[from] RequireError),
    /// A bundle of nothing is a slip: an empty `spec.bundle`, a list that a failed command wrote.
    #[error(
        "{}: there is nothing to bundle: give spec.kubernetes for a cluster, or something in spec.bundle (extraImages, \
         extraFiles, extraCharts), or images with --images-from",
        file.display()
    )]
    Nothing {
        /// cluster.yaml.
        file: PathBuf,
    },
    /// A list of images has lines that name none.
    #[error("{} is not a list of images:\n{}", path.display(), lines(bad))]
    ImageList {
        /// Its file.
        path: PathBuf,
        /// All of them.
        bad: Vec<BadLine>,
    },
    /// A list of images names none.
    #[error("{} names no image: give a list that does, or omit --images-from", path.display())]
    EmptyImageList {
        /// Its file.
        path: PathBuf,
    },
    /// A zone is neither built in nor a file.
    #[error(
        "zone {name:?} is neither a known zone ({}) nor a file: check its spelling, or give the path of a zone file",
        Zone::builtin_names().join(", ")
    )]
    UnknownZone {
        /// As written.
        name: String,
    },
    /// A file that a rule of a zone names cannot be used.
    #[error("{}: {problem} (of the rule for {rule})", path.display())]
    ZoneRule {
        /// The zone's file.
        path: PathBuf,
        /// What the rule matches.
        rule: String,
        /// What is wrong.
        problem: String,
    },
    /// A lock cannot be read.
    #[error("cannot read the lock {}: {source}{}", path.display(), if source.kind() == io::ErrorKind::NotFound { "; `kubexm-bundle lock` makes one" } else { "" })]
    NoLock {
        /// Its file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is no lock that this program reads.
    #[error("{}: {problem}", path.display())]
    Lock {
        /// Its file.
        path: PathBuf,
        problem: String,
    },
    /// A bundle is at an address that is not encrypted.
    #[error(
        "{address} is plain http, where anybody on the way can read and change it: use https, or give --plain-http"
    )]
    PlainHttp {
        /// As it may be shown.
        address: String,
    },
    /// No bundle is named.
    #[error("no bundle is named")]
    NoBundle,
    /// A bundle cannot be opened.
    #[error("{}", with_name(path, source))]
    Bundle {
        /// Its file.
        path: PathBuf,
        source: Box<ArchiveError>,
    },
    /// A bundle, or the place of one, cannot be used.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// What a delta is to be built on is neither a bundle, nor a manifest, nor an inventory.
    #[error("{}: {problem}", path.display())]
    Base {
        /// Its file.
        path: PathBuf,
        problem: String,
    },
    /// A file on a web server could not be read to its end.
    #[error("{name}: {problem}")]
    BrokenOff {
        /// Its address, as it may be shown.
        name: String,
        /// What came instead of the rest.
        problem: String,
    },
    /// A file of keys, or of what a host has installed, cannot be used.
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: String },
    /// No profile of an operating system.
    #[error(transparent)]
    UnknownOs(#[from] UnknownOs),
    /// An operating system is not there for an architecture.
    #[error("{os} is not available for {}, only for {}", arch.as_str(), known.join(", "))]
    NoArch {
        /// Its name.
        os: String,
        /// As asked for.
        arch: Arch,
        /// Those it is there for.
        known: Vec<&'static str>,
    },
    /// A mirror of the user's own cannot be one.
    #[error("--mirror: {0}")]
    Mirror(WrongMirror),
    /// Repositories of packages.
    #[error(transparent)]
    Packages(#[from] PackagesError),
    /// Something over the network, or the cache.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// Resolving, locking or building.
    #[error(transparent)]
    Build(Box<BuildError>),
    /// A file of the user cannot be read as what it is for.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Texts that cluster.yaml names cannot be carried.
    #[error("{}", MaterialError::all(.0))]
    Materials(Vec<MaterialError>),
    /// What is asked for cannot be done.
    #[error("{problem}")]
    Refused {
        /// How a program ends on it.
        code: ExitCode,
        /// What, and how to mend it.
        problem: String,
    },
    /// An output cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A key, a signature or a signer cannot be used.
    #[error(transparent)]
    Signing(#[from] SigningError),
    /// The OpenPGP key of a site cannot be used.
    #[error(transparent)]
    SiteKey(#[from] SignError),
    /// Something cannot be taken out of a bundle.
    #[error(transparent)]
    Extract(Box<ExtractError>),
    /// A bundle cannot be copied.
    #[error(transparent)]
    Copy(Box<CopyError>),
    /// There is no hand-over folder.
    #[error(transparent)]
    HandOver(Box<HandOverError>),
    /// A registry that bundles are pushed to and pulled from.
    #[error(transparent)]
    Registry(Box<OciError>),
    /// A folder of packages cannot be made a repository.
    #[error(transparent)]
    Repository(Box<FlatError>),
    /// Files that go into the bundle hold credentials.
    #[error(
        "credentials would be readable by everyone who has the bundle; leave these files out, or allow each with \
         --allow-secret FILE:{}",
        found.iter().map(|found| format!("\n- {} holds {}", found.path.display(), found.what)).collect::<String>()
    )]
    Credentials {
        /// All of them.
        found: Vec<Found>,
    },
}

/// Errors that are too large to lie in every result.
macro_rules! boxed {
    ($($variant:ident($error:ty)),*) => {$(
        impl From<$error> for SessionError {
            fn from(error: $error) -> Self {
                Self::$variant(Box::new(error))
            }
        }
    )*};
}

boxed! {
    Build(BuildError), Extract(ExtractError), Copy(CopyError), HandOver(HandOverError), Registry(OciError),
    Repository(FlatError)
}

impl SessionError {
    /// An error in words.
    pub(crate) fn refused(code: ExitCode, problem: impl Into<String>) -> Self {
        Self::Refused { code, problem: problem.into() }
    }

    /// The exit code of a program that ends with it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::NoHome
            | Self::NoUserHome { .. }
            | Self::Unreadable { .. }
            | Self::Nothing { .. }
            | Self::ImageList { .. }
            | Self::EmptyImageList { .. }
            | Self::UnknownZone { .. }
            | Self::ZoneRule { .. }
            | Self::NoLock { .. }
            | Self::Lock { .. }
            | Self::File { .. }
            | Self::Base { .. } => ExitCode::Config,
            Self::PlainHttp { .. } | Self::NoBundle | Self::Mirror(_) => ExitCode::Usage,
            Self::NoArch { .. } => ExitCode::UnknownVersion,
            Self::UnknownOs(error) => error.exit_code(),
            Self::Packages(error) => error.exit_code(),
            Self::BrokenOff { .. } => ExitCode::OriginDown,
            Self::Problems { problems, .. } => problems.exit_code(),
            Self::Overlay { source, .. } => source.exit_code(),
            Self::Require(error) => error.exit_code(),
            Self::Bundle { source, .. } => source.exit_code(),
            Self::Archive(error) => error.exit_code(),
            Self::Transport(error) => error.exit_code(),
            Self::Build(error) => error.exit_code(),
            Self::Input(error) => error.exit_code(),
            Self::Materials(errors) => MaterialError::exit_code_of(errors),
            Self::Credentials { .. } => ExitCode::InlineSecret,
            Self::Refused { code, .. } => *code,
            Self::Output(error) => error.exit_code(),
            Self::Signing(error) => error.exit_code(),
            Self::SiteKey(error) => error.exit_code(),
            Self::Extract(error) => error.exit_code(),
            Self::Copy(error) => error.exit_code(),
            Self::HandOver(error) => error.exit_code(),
            Self::Registry(error) => error.exit_code(),
            Self::Repository(error) => error.exit_code(),
        }
    }
}

impl ExitError for SessionError {
    fn exit_code(&self) -> ExitCode {
        self.exit_code()
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::Build(error) => error.details(),
            Self::Bundle { source, .. } => missing(source),
            Self::Archive(error) => missing(error),
            _ => None,
        }
    }
}

/// Volumes that are missing.
fn missing(error: &ArchiveError) -> Option<serde_json::Value> {
    let missing = error.missing_volumes();
    (!missing.is_empty()).then(|| serde_json::json!({ "missing": missing }))
}

fn lines(bad: &[BadLine]) -> String {
    bad.iter().map(|bad| format!("line {}: {}", bad.line, bad.problem)).collect::<Vec<_>>().join("\n")
}

/// Messages of archives name the file in most cases, and are not to name it twice.
fn with_name(path: &std::path::Path, error: &ArchiveError) -> String {
    let (name, text) = (path.display().to_string(), error_chain(error));
    if text.contains(&name) { text } else { format!("{name}: {text}") }
}
