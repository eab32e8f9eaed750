//! What can end a build, and which exit code that is.

use std::path::PathBuf;

use kubexm_archive::ArchiveError;
use kubexm_files::MaterialError;
use kubexm_manifests::{CatalogueError, RequireError};
use kubexm_packages::solve::Unsolvable;
use kubexm_signing::image::{BadPolicy, Unsigned};
use kubexm_spec::rendering::RenderingMismatch;
use kubexm_spec::{ArtifactKey, Digest, ExitCode, ExitError, Platform, amount, amount_needed, counted_of, error_chain};
use kubexm_transport::TransportError;

use crate::by_cause;
use crate::charts::ChartError;
use crate::difference::Difference;
use crate::harbor::HarborError;
use crate::origins::packages::PackagesError;

/// An error of the builder.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Something cannot be fetched.
    #[error("{item}: {source}")]
    Fetch {
        /// The artifact's key.
        item: String,
        /// What went wrong; its text names the origin.
        source: Box<TransportError>,
    },
    /// An origin that counts requests answers no more of them.
    #[error(
        "{source}. Not asked about: {}{}", missing.join(", "),
        if *with_token { "" } else {
            "; GitHub allows 60 requests per hour without a token, and 5,000 with one: set GITHUB_TOKEN, or give --github-token-file"
        }
    )]
    RequestLimit {
        /// Components whose versions are not known.
        missing: Vec<String>,
        /// Whether a token was sent.
        with_token: bool,
        source: Box<TransportError>,
    },
    /// GitHub does not accept the token.
    #[error(
        "{item}: GitHub refuses the token from {from} ({reason}); renew it, or leave it out: lists of releases are public"
    )]
    Token {
        /// What was asked about.
        item: String,
        /// The variable or file.
        from: String,
        /// The status.
        reason: String,
    },
    /// Several artifacts failed; all are reported.
    #[error("{} failed:{}", counted_of(.0, "artifact"), grouped(.0))]
    Several(Vec<BuildError>),
    /// The cluster asks for what the catalogue does not have.
    #[error(transparent)]
    Require(#[from] RequireError),
    /// The catalogue cannot be used.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// Writing or reading the bundle failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// No `kubexm-install` for a platform.
    #[error("no kubexm-install for {platform} was found ({reason}); name one with --installer FILE")]
    Installer {
        /// Platform of the hosts.
        platform: Platform,
        /// Where it was looked for, and what was there.
        reason: String,
    },
    /// A local file of the user cannot be read.
    #[error("cannot read {}", path.display())]
    Local {
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A local file was changed between its lock and its packing.
    #[error(
        "{} does not have the digest {expected}, which it had when it was locked, or which its OCI layout states: it was changed \
         meanwhile, or is damaged; run the same build again, or copy the layout again",
        path.display()
    )]
    LocalChanged {
        path: PathBuf,
        /// What it was, or what its layout says it is.
        expected: Digest,
    },
    /// A list of versions is something else.
    #[error(
        "{item}: {url} answers with {problem}; is a proxy or a login page in between? Give another place with a zone file"
    )]
    Listing {
        /// Of what.
        item: String,
        url: String,
        /// What came instead.
        problem: String,
    },
    /// Upstream's checksum file does not name the artifact.
    #[error("{item}: {url} holds no sha256 of {file_name}; pin the digest in a catalogue overlay")]
    NoChecksum {
        /// The artifact's key.
        item: String,
        /// Checksum file, without what may be a key in it.
        url: String,
        /// File that was looked for.
        file_name: String,
        /// What came is a page, so that nobody knows what the list has.
        is_page: bool,
    },
    /// A tag was answered with different images while it was locked, so that one name would stand for two things.
    #[error(
        "{reference} is {first} for one platform and {second} for another: a mirror carries one platform only, or the tag was moved meanwhile; build again, or name the image by digest"
    )]
    TwoImages {
        /// The reference.
        reference: String,
        /// What it was for the first platform.
        first: Digest,
        /// What it was for another.
        second: Digest,
    },
    /// The cache cannot be read, or what it held was damaged.
    #[error("{}: {problem}", path.display())]
    Cache {
        /// The blob's file.
        path: PathBuf,
        /// What is wrong, and what is to be done.
        problem: String,
    },
    /// A disk is too small for what would be written.
    #[error(
        "no room for {what}: {} has {} free, and at least {} are needed; free space there, or choose another folder",
        path.display(), amount(*free), amount_needed(*needed)
    )]
    NoRoom {
        /// The folder.
        path: PathBuf,
        /// `the bundle`, `the bundle and the cache`.
        what: String,
        /// Free bytes.
        free: u64,
        /// At least so many would be written.
        needed: u64,
    },
    /// What is needed, or what is on this machine, is not what was locked.
    #[error(
        "the lock does not fit: {}{}\n{}",
        counted_of(.0, "difference"),
        .0.iter().map(|difference| format!("\n- {difference}")).collect::<String>(),
        fix(.0)
    )]
    Drift(Vec<Difference>),
    /// The locked content is no longer available: an origin has something else.
    #[error(
        "{error}\nif this is intended, `kubexm-bundle update {items}` locks it, unless cluster.yaml or the catalogue pins the earlier one"
    )]
    NotAsLocked {
        error: Box<BuildError>,
        /// The keys of what an origin has otherwise.
        items: String,
    },
    /// Repositories of an operating system cannot be used, or a package of one is not what was locked.
    #[error("packages of {of}: {source}")]
    Packages {
        /// `debian-12 linux/amd64`.
        of: String,
        #[source]
        source: Box<PackagesError>,
    },
    /// No set of packages is what nodes need.
    #[error("packages of {of}: no set of packages satisfies all dependencies:{}", unsolvable.reasons.iter().map(|reason| format!("\n- {reason}")).collect::<String>())]
    NoPackages {
        /// `debian-12 linux/amd64`.
        of: String,
        unsolvable: Unsolvable,
    },
    /// Needed packages are not signed, and no reviewed lock names them.
    #[error(
        "no signature covers {}, of {}: the metadata of their repository is accepted only for what a lock pins by sha256; write one with `kubexm-bundle lock`, review it, and build with --locked",
        .0.first().map_or("", String::as_str), counted_of(.0, "package")
    )]
    UnsignedPackages(Vec<String>),
    /// A lock says of a package that the vendor signs it, and names no place of the vendor's.
    #[error(
        "{item}: the lock records that the vendor signs it (gpg), but none of its sources is below a repository of {os}{}; \
         `kubexm-bundle update` locks it again from the signed repositories",
        trusted(*family)
    )]
    ForeignPackage {
        /// The item.
        item: String,
        /// The release.
        os: String,
        /// Its packages.
        family: kubexm_spec::Family,
    },
    /// An image is not signed as cluster.yaml demands.
    #[error(transparent)]
    UnsignedImage(Box<Unsigned>),
    /// Signatures were not looked for.
    #[error(
        "--no-referrers leaves out signatures of images, which spec.bundle.imageSignatures demands: omit that option, or the rules"
    )]
    ReferrersLeftOut,
    /// A key or a trusted root that cluster.yaml names cannot be used.
    #[error(transparent)]
    ImagePolicy(#[from] BadPolicy),
    /// The file of one cannot be read.
    #[error(transparent)]
    Material(Box<MaterialError>),
    /// A bundle lacks such a file.
    #[error("{field}: the bundle does not have {key}")]
    MissingMaterial {
        /// The field that names it.
        field: String,
        key: ArtifactKey,
    },
    /// A chart, or a YAML add-on.
    #[error(transparent)]
    Chart(#[from] ChartError),
    /// What was fetched as Harbor's installer.
    #[error(transparent)]
    Harbor(#[from] HarborError),
    /// A lock was made with other values than cluster.yaml has now.
    #[error(
        "charts were locked with other settings than cluster.yaml has now:{}\n`kubexm-bundle update` renders them again",
        .0.iter().map(|other| format!("\n- {other}")).collect::<String>()
    )]
    Rendered(Vec<RenderingMismatch>),
    /// An internal data structure could not be serialized.
    #[error("cannot write {what} as text: {reason}")]
    Encode {
        /// `lock.yaml` …
        what: &'static str,
        /// The writer's error.
        reason: String,
    },
    /// A member of a bundle is not what this program reads.
    #[error("{member} of the bundle cannot be read: {reason}")]
    Member {
        /// Member name.
        member: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A task of this program died.
    #[error("a worker of this program died: {0}")]
    Worker(String),
}

impl BuildError {
    /// The exit code of a program that ends with it; of several, the most severe.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Fetch { source, .. } | Self::RequestLimit { source, .. } => source.exit_code(),
            Self::Token { .. } => ExitCode::OriginDenied,
            Self::Several(errors) => errors.iter().map(Self::exit_code).fold(ExitCode::Ok, ExitCode::worst),
            Self::Require(error) => error.exit_code(),
            Self::Catalogue(error) => error.exit_code(),
            Self::Archive(error) => error.exit_code(),
            Self::Installer { .. } | Self::Local { .. } => ExitCode::Config,
            Self::LocalChanged { .. } => ExitCode::OriginMismatch,
            Self::NoChecksum { .. } => ExitCode::OriginMissing,
            Self::TwoImages { .. } | Self::Listing { .. } => ExitCode::OriginMismatch,
            Self::Drift(_) | Self::Rendered(_) => ExitCode::LockDrift,
            Self::NotAsLocked { error, .. } => error.exit_code(),
            Self::Packages { source, .. } => source.exit_code(),
            Self::NoPackages { .. } => ExitCode::NoSource,
            Self::UnsignedPackages(_) => ExitCode::OriginMismatch,
            Self::ForeignPackage { .. } => ExitCode::LockDrift,
            Self::UnsignedImage(_) => ExitCode::ImageUnsigned,
            Self::ReferrersLeftOut => ExitCode::Usage,
            Self::ImagePolicy(_) => ExitCode::Config,
            Self::Material(error) => error.exit_code(),
            Self::MissingMaterial { .. } => ExitCode::BundleIncomplete,
            Self::Chart(error) => error.exit_code(),
            Self::Harbor(error) => error.exit_code(),
            Self::Cache { .. } | Self::NoRoom { .. } => ExitCode::Disk,
            Self::Member { .. } => ExitCode::BundleDamaged,
            Self::Encode { .. } | Self::Worker(_) => ExitCode::Internal,
        }
    }

    /// What several artifacts may have failed for.
    fn cause(&self) -> Option<String> {
        match self {
            Self::Fetch { source, .. } => source.cause(),
            _ => None,
        }
    }

    /// The artifact's key.
    fn item(&self) -> Option<&str> {
        match self {
            Self::Fetch { item, .. } => item.split(' ').next(),
            _ => None,
        }
    }

    /// With what to do where a lock was built and origins have something else by now.
    #[must_use]
    pub fn of_a_lock(self) -> Self {
        let all = match &self {
            Self::Several(errors) => errors.as_slice(),
            one => std::slice::from_ref(one),
        };
        let other = all.iter().filter_map(|error| match error {
            // `key (reference)` of images.
            Self::Fetch { item, .. } if error.exit_code() == ExitCode::OriginMismatch => item.split(' ').next(),
            _ => None,
        });
        match other.collect::<Vec<_>>().join(" ") {
            items if items.is_empty() => self,
            items => Self::NotAsLocked { error: Box::new(self), items },
        }
    }

    /// One error of several, or the only one.
    pub fn from_many(errors: Vec<Self>) -> Self {
        by_cause::one_or(errors, Self::Several)
    }
}

impl ExitError for BuildError {
    fn exit_code(&self) -> ExitCode {
        self.exit_code()
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::Drift(differences) => Some(serde_json::json!({ "differences": differences })),
            _ => None,
        }
    }
}

/// A line each; those that failed for the same cause together.
fn grouped(errors: &[BuildError]) -> String {
    let name = |error: &BuildError| error.item().map(str::to_owned);
    by_cause::lines(errors, "artifact", BuildError::cause, name, |error| error_chain(error))
}

/// Why a package is trusted for where it is from.
pub(crate) fn trusted(family: kubexm_spec::Family) -> &'static str {
    match family {
        kubexm_spec::Family::Deb => {
            " (a .deb carries no signature of its own: it is trusted by the signed index that it was locked from)"
        }
        kubexm_spec::Family::Rpm => " (which states whose signature it must carry)",
    }
}

/// How many items the hint about locking them again names.
const NAMED: usize = 3;

/// What to do about differences.
fn fix(differences: &[Difference]) -> String {
    let items = items(differences);
    format!("`kubexm-bundle update{items}` locks again what is different; `kubexm-bundle diff` shows what that changes")
}

/// ` KEY KEY` for the command line that fixes differences; nothing where they are many, or about the lock as a whole.
fn items(differences: &[Difference]) -> String {
    let mut keys: Vec<String> = Vec::new();
    for difference in differences {
        let Some(key) = difference.key.as_ref().map(ToString::to_string) else { return String::new() };
        // For a shell.
        if !key.chars().all(|c| c.is_ascii_alphanumeric() || "/._:@+-".contains(c)) {
            return String::new();
        }
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    if keys.len() > NAMED { String::new() } else { keys.iter().map(|key| format!(" {key}")).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(item: &str, path: &str, reason: &str) -> BuildError {
        let source = TransportError::Down { origin: format!("https://host.test/{path}"), reason: reason.to_owned() };
        BuildError::Fetch { item: item.to_owned(), source: Box::new(source) }
    }

    #[test]
    fn one_cause_is_reported_once_with_what_it_is_about() {
        let mut errors: Vec<_> =
            (0..12).map(|n| failed(&format!("image/i{n} (a.test/i{n}:1)"), "v2/", "refused")).collect();
        errors.insert(3, failed("binary/runc", "runc", "silent"));
        let text = BuildError::Several(errors).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[0], "13 artifacts failed:");
        assert!(lines[1].starts_with("- 12 artifacts: https://host.test: request failed: refused"), "{text}");
        assert!(lines[2].starts_with("  needed for image/i0, ") && lines[2].ends_with("image/i7 and 4 more"), "{text}");
        assert!(lines[3].starts_with("- binary/runc: https://host.test/runc: request failed: silent"), "{text}");
    }
}
