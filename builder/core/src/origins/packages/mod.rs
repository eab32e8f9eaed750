//! Packages of operating systems: repositories read, checked and put into one pool; and package files, compared
//! with their index entries.

mod check;
pub mod deb;
mod deb_index;
mod deb_release;
mod error;
mod protection;
mod remembered;
pub mod rpm;
mod rpm_index;
mod rpm_repository;

pub use check::{File, Vendor, check};
pub use error::PackagesError;

use kubexm_packages::model::Package;
use kubexm_packages::solve::Pool;
use kubexm_packages::trust::Keyring;
use kubexm_spec::Digest;
use kubexm_transport::FileCandidate;

/// By what a repository is trusted.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Its metadata carries a signature of one of these keys.
    Signed(Keyring),
    /// Unsigned with the user's consent: only packages that a lock pins by sha256 are accepted from it.
    PinnedOnly,
}

/// What all repositories of a distribution have, checked.
#[derive(Debug)]
pub struct Loaded {
    /// All packages.
    pub pool: Pool,
    /// The state of each repository that was read, in the order of [`Pool::repos`].
    pub snapshots: Vec<Snapshot>,
}

impl Loaded {
    /// The state of the repository that a package is from.
    pub fn snapshot(&self, package: &Package) -> Option<&Snapshot> {
        self.snapshots.get(usize::from(package.repo.0))
    }

    /// A package's own address, whichever mirror answered.
    pub fn origin(&self, package: &Package) -> String {
        match self.snapshot(package) {
            Some(snapshot) if !package.location.contains("://") => below(&snapshot.origin, &package.location),
            _ => self.pool.url(package),
        }
    }
}

/// The state of a repository at the time it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What people call it: `bookworm-security/main`.
    pub repository: String,
    /// Of the repository in its profile: `security`.
    pub name: String,
    /// The repository's own address without a slash at its end, whichever mirror answered.
    pub origin: String,
    /// The signed file's own address, whichever mirror answered.
    pub address: String,
    /// Of the signed file (InRelease, Release, repomd.xml).
    pub digest: Digest,
    /// When the vendor made it, in seconds of Unix time, where it says so.
    pub date: Option<i64>,
    /// Whether a signature was checked.
    pub signed: bool,
    /// Nobody signed it, it came over plain http, and the user trusts that address.
    pub trust_unsigned: bool,
}

/// An address below another one.
fn below(base: &str, path: &str) -> String {
    format!("{}/{}", base.trim_end_matches('/'), path.trim_start_matches('/'))
}

fn without_slash(mut base: FileCandidate) -> FileCandidate {
    base.url.truncate(base.url.trim_end_matches('/').len());
    base
}

/// How repositories are read.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The time, in seconds of Unix time: what was good until earlier is refused.
    pub now: i64,
    /// An address may be plain http. The distributions' own mirrors are: what comes is checked by signature and digest.
    pub plain_http: bool,
}

impl Options {
    /// At a time in seconds of Unix time; plain http allowed.
    pub const fn at(now: i64) -> Self {
        Self { now, plain_http: true }
    }
}
