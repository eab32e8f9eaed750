//! Why a repository cannot be used, and which exit code that is.

use std::path::PathBuf;

use kubexm_packages::deb::control::ControlError;
use kubexm_packages::deb::release::{ReleaseError, format_date};
use kubexm_packages::rpm::DocumentError;
use kubexm_packages::rpm::streams::ModuleError;
use kubexm_packages::trust::TrustError;
use kubexm_spec::{ExitCode, Family, counted_of};
use kubexm_transport::TransportError;

use crate::by_cause;

/// An error about repositories of packages. `repository` is what people call it: `bookworm-security`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackagesError {
    /// It does not answer, or not as it should.
    #[error("repository {repository}: {source}")]
    Fetch {
        repository: String,
        /// What went wrong; its text names the address.
        source: Box<TransportError>,
    },
    /// Its signature is missing, wrong, or by an unknown key.
    #[error(
        "repository {repository}: {url}: {source}; another mirror may serve what is signed, and a repository of your own needs its key"
    )]
    Untrusted {
        repository: String,
        /// Of what is signed.
        url: String,
        source: TrustError,
    },
    /// Its vendor shows it to subscribers only, and no certificate of one is at hand.
    #[error(
        "repository {repository}: {url} requires the client certificate of a subscription: give a rule of a zone file for its host \
         certFile and keyFile (of a subscribed host: /etc/pki/entitlement/N.pem and N-key.pem) and caFile \
         (/etc/rhsm/ca/redhat-uep.pem), or name a mirror or the vendor's DVD (--mirror)"
    )]
    Entitlement {
        repository: String,
        /// Its address.
        url: String,
    },
    /// It has neither InRelease nor Release.gpg, or no repomd.xml.asc.
    #[error("repository {repository}: {url} is not signed ({}); use a mirror that carries the signature", lacking(.url))]
    Unsigned {
        repository: String,
        /// Where it was looked for.
        url: String,
    },
    /// Nobody signs it, and nothing else shows that the vendor made it.
    #[error(
        "repository {repository}: {url} is not signed, and over plain http anybody on the network can replace it; use an address with \
         https, a folder, or --key with a mirror that has repomd.xml.asc; if you trust that network: trustUnsigned: true in the \
         zone's rule, or --trust-unsigned with --mirror"
    )]
    PlainHttp {
        repository: String,
        /// Of the metadata, or of the list of mirrors.
        url: String,
    },
    /// Like [`PackagesError::Unsigned`], of a folder of this machine: vendors sign what they serve, and few of their media.
    #[error(
        "repository {repository}: {url} is not signed (no InRelease, no Release.gpg), like the indexes of most media: add a mirror that \
         has the signature (a zone's rule without `only`, --mirror given twice), packages are still read from the \
         medium; or sign it with a key of your own (gpg --detach-sign -o Release.gpg Release), and name that with --key"
    )]
    UnsignedMedium {
        repository: String,
        /// Where it was looked for.
        url: String,
    },
    /// No repository of a system is in the folders that were named.
    #[error(
        "{} no repository of {os}: looked for {} at the root, where the vendor's media have it, and where a mirror would; mount the \
         medium there, or name the folder of each repository (--mirror NAME=FOLDER)",
        having(folders),
        match family { Family::Deb => "dists/", Family::Rpm => "repodata/" }
    )]
    EmptyMedium {
        /// The system.
        os: String,
        /// What was looked into.
        folders: Vec<PathBuf>,
        /// Its packages.
        family: Family,
    },
    /// It is not good any more.
    #[error(
        "repository {repository}: {url} was good until {}; the mirror is stale: use another one (and check this machine's clock)",
        format_date(*.until)
    )]
    Expired {
        repository: String,
        /// Of what is signed.
        url: String,
        /// `Valid-Until`, in seconds of Unix time.
        until: i64,
    },
    /// It was made later than now.
    #[error("repository {repository}: {url} has the date {}, which is in the future; check this machine's clock", format_date(*.date))]
    NotYet {
        repository: String,
        /// Of what is signed.
        url: String,
        /// `Date`, in seconds of Unix time.
        date: i64,
    },
    /// It is older than what the same address had before.
    #[error(
        "repository {repository}: {url} has the date {}, and had {} before: an old state is replayed, or the mirror was rolled back; \
         use another mirror, or, if the rollback is intended, an empty cache (--cache)",
        format_date(*.date), format_date(*.before)
    )]
    Replayed {
        repository: String,
        /// Of what is signed.
        url: String,
        /// `Date` of now, in seconds of Unix time.
        date: i64,
        /// The newest that was seen.
        before: i64,
    },
    /// It is signed, and is another suite.
    #[error(
        "repository {repository}: {url} calls itself {found}: the mirror serves another suite there; use its right name, or another mirror"
    )]
    SuiteMismatch {
        repository: String,
        /// Of what is signed.
        url: String,
        /// The name that it states.
        found: String,
    },
    /// The signed content cannot be read, or does not have what is requested.
    #[error("repository {repository}: {url}: {source}")]
    Release {
        repository: String,
        /// Of what is signed.
        url: String,
        source: ReleaseError,
    },
    /// An index has the right digest and cannot be read.
    #[error("repository {repository}: {path}: {source}")]
    Index {
        repository: String,
        /// Below the repository's address.
        path: String,
        source: ControlError,
    },
    /// What unpacks is not what the repository says of it.
    #[error("repository {repository}: {path} cannot be unpacked: {reason}; use another mirror")]
    Unpack {
        repository: String,
        /// Below the repository's address.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A document of rpm's family has the right digest and cannot be read.
    #[error("repository {repository}: {url}: {source}; use another mirror")]
    Document {
        repository: String,
        /// Of the document.
        url: String,
        source: DocumentError,
    },
    /// A requested module stream cannot be enabled.
    #[error("{0}; name another stream, or leave it out")]
    Modules(ModuleError),
    /// The modules of repositories are too much to choose among.
    #[error("{}: {source}; use another mirror", of_repositories(repositories))]
    TooManyModules {
        /// Those that have modules.
        repositories: Vec<String>,
        source: ModuleError,
    },
    /// A package is not what the index says of it.
    #[error("package {package}: {reason}; use another mirror")]
    Package {
        /// Which, as the index calls it.
        package: String,
        /// What is wrong.
        reason: String,
    },
    /// A vendor's key of an embedded profile is missing or cannot be read.
    #[error("a key of the profile: {0}")]
    Key(TrustError),
    /// More repositories than a pool supports.
    #[error("more than {0} repositories; name fewer")]
    TooMany(usize),
    /// Several failed; all are reported.
    #[error("{} failed:{}", counted_of(.0, "thing"), grouped(.0))]
    Several(Vec<PackagesError>),
    /// A task of this program died.
    #[error("a worker of this program died: {0}")]
    Worker(String),
}

fn of_repositories(names: &[String]) -> String {
    format!("{} {}", if names.len() == 1 { "repository" } else { "repositories" }, names.join(", "))
}

/// What of a repository's signature is not there.
fn lacking(url: &str) -> &'static str {
    if url.ends_with("repomd.xml") { "no repomd.xml.asc" } else { "no InRelease, no Release.gpg" }
}

impl PackagesError {
    /// The exit code of a program that ends with it; of several, the most severe.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Fetch { source, .. } => source.exit_code(),
            Self::Untrusted { source, .. } => source.exit_code(),
            Self::Unsigned { .. }
            | Self::PlainHttp { .. }
            | Self::UnsignedMedium { .. }
            | Self::Expired { .. }
            | Self::NotYet { .. }
            | Self::Replayed { .. }
            | Self::SuiteMismatch { .. }
            | Self::Index { .. }
            | Self::Unpack { .. }
            | Self::Document { .. }
            | Self::TooManyModules { .. }
            | Self::Package { .. } => ExitCode::OriginMismatch,
            Self::Release { source: ReleaseError::Control(_) | ReleaseError::NoSha256, .. } => ExitCode::OriginMismatch,
            Self::Release { .. } | Self::EmptyMedium { .. } => ExitCode::OriginMissing,
            Self::Entitlement { .. } => ExitCode::OriginDenied,
            Self::TooMany(_) | Self::Modules(_) | Self::Key(_) => ExitCode::Config,
            Self::Several(errors) => errors.iter().map(Self::exit_code).fold(ExitCode::Ok, ExitCode::worst),
            Self::Worker(_) => ExitCode::Internal,
        }
    }

    /// Whether a retry may succeed: no origin answered that it is absent or wrong.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Fetch { source, .. } => source.may_pass(),
            Self::Several(errors) => errors.iter().any(Self::may_pass),
            _ => false,
        }
    }

    /// What several repositories may have failed for.
    pub fn cause(&self) -> Option<String> {
        match self {
            Self::Fetch { source, .. } => source.cause(),
            _ => None,
        }
    }

    /// One error of several, or the only one.
    pub fn from_many(errors: Vec<Self>) -> Self {
        by_cause::one_or(errors, Self::Several)
    }
}

/// A line each; repositories that failed for the same cause together.
fn grouped(errors: &[PackagesError]) -> String {
    let name = |error: &PackagesError| match error {
        PackagesError::Fetch { repository, .. } => Some(format!("repository {repository}")),
        _ => None,
    };
    by_cause::lines(errors, "request", PackagesError::cause, name, ToString::to_string)
}

fn having(folders: &[PathBuf]) -> String {
    let shown: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    format!("{} {}", shown.join(", "), if folders.len() == 1 { "has" } else { "have" })
}
