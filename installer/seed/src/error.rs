//! What can go wrong, and which exit code that is.

use kubexm_archive::{ArchiveError, Incomplete};
use kubexm_spec::{ExitCode, ExitError, amount, counted_of};
use kubexm_transport::{Quota, TransportError};
use serde_json::{Value, json};

use crate::totals::Totals;

/// Why a bundle is not, or not wholly, in the registry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeedError {
    /// The bundle cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The web server of the bundle.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A bundle's address over http.
    #[error(
        "{0} is plain http, where anybody on the way can change what is read; use https, or allow it with --plain-http"
    )]
    PlainHttp(String),
    /// The bundle lacks something that it names.
    #[error(transparent)]
    Incomplete(#[from] Box<Incomplete>),
    /// The bundle's lock.
    #[error("lock.yaml of the bundle cannot be read: {0}; use the kubexm that came with the bundle")]
    Lock(String),
    /// A document of the bundle that is not what it should be.
    #[error("{what} in the bundle: {problem}; build the bundle again")]
    Document {
        /// An image, a chart.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A delta whose rest is not where it was said to be.
    #[error(
        "{what}: the bundle is a delta that leaves {digest} out, and {place} does not have it; name the bundle that has it with --base"
    )]
    BaseLacks {
        /// An image, a blob.
        what: String,
        /// What is missing.
        digest: kubexm_spec::Digest,
        /// Where it was looked for.
        place: String,
    },
    /// There is nothing of what was asked for.
    #[error("the bundle has no {0}; leave --only out, or name another bundle")]
    Nothing(String),
    /// A platform of which the bundle has nothing.
    #[error("the bundle has nothing for {asked}; it was built for {found}")]
    Platform {
        /// The platform asked for.
        asked: String,
        /// Those of the bundle.
        found: String,
    },
    /// A name that no registry takes.
    #[error(
        "{of} would be called {name:?} in the registry, which is no repository's name (at most 255 characters, lower case); choose another prefix (--to) or another --namespace-override"
    )]
    Name {
        /// What it is.
        of: String,
        /// What it would be called.
        name: String,
    },
    /// Two things would have one name.
    #[error("{}", collisions(.0))]
    Collides(Vec<Collision>),
    /// Images that are named by the digest of an index that would not be there.
    #[error("{}", by_digest(.0))]
    ByIndexDigest(Vec<String>),
    /// Tags that name something else.
    #[error("{}", taken(.0))]
    TagsTaken(Vec<TagTaken>),
    /// The registry refused, or could not be asked.
    #[error("cannot {doing} {place}: {mend}")]
    Registry {
        /// `push to`, `read` …
        doing: &'static str,
        /// `registry/repository`.
        place: String,
        /// What to do.
        mend: String,
        source: Box<TransportError>,
    },
    /// A quota that leaves too little room.
    #[error(
        "the project {:?} of {registry} has room for {} (its quota is {}, {} are used), and {} are missing there, so nothing was sent; free \
         room there, or have the quota raised (that of a cluster's own Harbor is spec.registry.harborConfig.projectQuota)",
        quota.project, amount(quota.limit.saturating_sub(quota.used)), amount(quota.limit), amount(quota.used), amount(*missing)
    )]
    NoRoom {
        /// `HOST[:PORT]`.
        registry: String,
        /// As the registry reports it.
        quota: Quota,
        /// Bytes that would be sent.
        missing: u64,
    },
    /// After the push a reference names something else, or nothing.
    #[error("{} in the registry not as they were pushed, somebody else may write there; run again:{}", counted_of(.0, "reference"), lines(.0))]
    Audit(Vec<String>),
    /// It ended in the middle.
    #[error("{}; run the same command again: it sends only what is missing", said(*totals))]
    Partly {
        /// What was pushed.
        totals: Totals,
        source: Box<SeedError>,
    },
    /// The caller asked to stop.
    #[error("stopped; run the same command again: it continues where it was")]
    Stopped,
    /// A file of this machine.
    #[error("cannot {action} {}", path.display())]
    Disk {
        /// `write`, `read`.
        action: &'static str,
        /// The file.
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    /// A fault of this program.
    #[error("{0}; this is a fault of this program")]
    Internal(String),
}

/// Two sources of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collision {
    /// `registry/repository:tag`.
    pub name: String,
    /// The two.
    pub of: [String; 2],
    /// Whether they are images, whose names the target decides.
    pub images: bool,
}

/// A tag that names something else than what is to be pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagTaken {
    /// `registry/repository:tag`.
    pub name: String,
    /// What it names.
    pub found: kubexm_spec::Digest,
    /// What it should name.
    pub wanted: kubexm_spec::Digest,
}

fn lines(all: &[String]) -> String {
    all.iter().map(|line| format!("\n- {line}")).collect()
}

fn collisions(all: &[Collision]) -> String {
    let lines: String = all.iter().map(|one| format!("\n- {}: {} and {}", one.name, one.of[0], one.of[1])).collect();
    let images = "leave --namespace-override out, or choose another one";
    let others =
        "give one of the files another name, or one of the charts another version, or send the rest (--only images)";
    let mend = match (all.iter().any(|one| one.images), all.iter().any(|one| !one.images)) {
        (true, true) => format!("{images}; {others}"),
        (true, false) => images.to_owned(),
        (false, _) => others.to_owned(),
    };
    format!("different things would have one name, and nothing was sent; {mend}:{lines}")
}

fn by_digest(all: &[String]) -> String {
    format!(
        "{} by the digest of an index whose platforms are not all in the bundle, and registries that check an index refuse it, so \
         nothing was sent; build the bundle for all platforms of the image, name the image by a tag, or push the index as it is to a \
         registry that takes it (--sparse-indexes):{}",
        if all.len() == 1 { "1 image is named".to_owned() } else { format!("{} images are named", all.len()) },
        lines(all)
    )
}

fn taken(all: &[TagTaken]) -> String {
    let lines: String =
        all.iter().map(|one| format!("\n- {} is {}, and would become {}", one.name, one.found, one.wanted)).collect();
    format!(
        "{} in the registry something else, and nothing was sent; push to another prefix, or move the tags with --overwrite-tags:{lines}",
        if all.len() == 1 { "1 tag names".to_owned() } else { format!("{} tags name", all.len()) }
    )
}

fn said(totals: Totals) -> String {
    let Totals { blobs_sent, bytes_sent, manifests, tags, .. } = totals;
    match (blobs_sent, manifests, tags) {
        (0, 0, 0) => "nothing was pushed".to_owned(),
        _ => format!(
            "not everything was pushed: {blobs_sent} blobs ({bytes_sent} bytes), {manifests} manifests and {tags} tags are in the registry"
        ),
    }
}

impl SeedError {
    /// An answer of a registry with what to do about it.
    pub(crate) fn registry(doing: &'static str, place: String, source: TransportError) -> Self {
        if matches!(source, TransportError::Stopped) {
            return Self::Stopped;
        }
        let mend = mend(&source, &place);
        Self::Registry { doing, place, mend, source: Box::new(source) }
    }
}

/// Whether a registry refuses to move a tag. The distribution specification has no code for it: Harbor, ECR and others say so in
/// words.
fn is_immutable(error: &TransportError) -> bool {
    let said = said_by(error);
    // Harbor's answer to who has no right names the repository.
    said.contains("immutable") && !said.contains(NO_RIGHT)
}

/// Harbor's words to a login that is right, and has no right there.
const NO_RIGHT: &str = "unauthorized to access repository";

/// The answer in small letters. An address is no part of it: a project may have any name.
fn said_by(error: &TransportError) -> String {
    error.reason().unwrap_or_default().to_ascii_lowercase()
}

/// Whether it is Harbor that takes no pushes from anybody now: it answers 403, as to who has no right.
fn is_read_only(error: &TransportError) -> bool {
    matches!(error, TransportError::Denied { .. }) && said_by(error).contains("in read only mode")
}

/// What to do about a certificate that is refused, by rustls' words.
fn of_certificate(said: &str, registry: &str) -> String {
    if said.contains("expired") {
        "its certificate has expired, or the clock of this machine is wrong; have it renewed, or set the clock"
            .to_owned()
    } else if said.contains("not valid yet") {
        "its certificate is not valid yet, or the clock of this machine is wrong; set the clock".to_owned()
    } else if said.contains("not valid for name") {
        format!("its certificate is for other names than {registry}; name the registry as its certificate does (--to)")
    } else {
        "its certificate is not trusted; give the CA's certificate with --ca-file".to_owned()
    }
}

/// What to do about an answer of a registry.
fn mend(error: &TransportError, place: &str) -> String {
    let registry = place.split('/').next().unwrap_or(place);
    let project = place.split('/').nth(1).unwrap_or_default();
    let said = said_by(error);
    if is_immutable(error) {
        return "the tag is immutable there; push to another prefix, or have the rule of the project changed"
            .to_owned();
    }
    if said.contains("manifest_blob_unknown") || said.contains("manifest unknown to registry") {
        return "the registry checks what an index names, and refuses one whose platforms are not all there; leave \
                --sparse-indexes out if it was given, else run again: what was there may have been deleted meanwhile"
            .to_owned();
    }
    if said.contains("invalid peer certificate") {
        return of_certificate(&said, registry);
    }
    if said.contains("405 method not allowed") || said.contains("read-only") || said.contains("read only") {
        return "the registry takes no pushes now (it is read-only, or a cache); ask who runs it".to_owned();
    }
    match error {
        TransportError::Missing { .. } => format!(
            "there is no project {project:?}, or these credentials do not see it, and none is made by this program; have it made, \
             or push below one that is there (--to {registry}/PROJECT)"
        ),
        TransportError::Denied { reason, .. }
            if !said.contains(NO_RIGHT) && (reason.starts_with("401") || reason.contains("login")) =>
        {
            format!(
                "the login is missing or wrong; log in (`docker login {registry}`, --auth-file), or give --username with \
                 --password-from"
            )
        }
        TransportError::Denied { .. } => format!(
            "these credentials may not push there; use others (--auth-file, --username with --password-from), or have the right to \
             push to {project:?} given to them"
        ),
        TransportError::NoRoom { .. } => "free room there, or have the quota raised, then run again".to_owned(),
        TransportError::NotTheFile { .. } => {
            format!("{registry} answers with pages, not as a registry; check host and port, and what stands before it")
        }
        _ => "what is there is kept; run again when this is mended".to_owned(),
    }
}

impl ExitError for SeedError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Archive(error) => error.exit_code(),
            Self::Transport(error) => error.exit_code(),
            Self::Incomplete(error) => error.exit_code(),
            Self::Lock(_) => ExitCode::NotABundle,
            Self::Document { .. } => ExitCode::BundleDamaged,
            Self::BaseLacks { .. } | Self::Nothing(_) | Self::Platform { .. } | Self::ByIndexDigest(_) => {
                ExitCode::BundleIncomplete
            }
            Self::PlainHttp(_) | Self::Name { .. } | Self::Collides(_) => ExitCode::Config,
            Self::TagsTaken(_) => ExitCode::TagTaken,
            Self::Registry { source, .. } if is_immutable(source) => ExitCode::TagTaken,
            Self::Registry { source, .. } if is_read_only(source) => ExitCode::OriginDown,
            Self::Registry { source, .. } => source.exit_code(),
            Self::NoRoom { .. } => ExitCode::RegistryFull,
            Self::Audit(_) => ExitCode::OriginMismatch,
            Self::Partly { source, .. } => source.exit_code(),
            Self::Stopped => ExitCode::Declined,
            Self::Disk { .. } => ExitCode::Disk,
            Self::Internal(_) => ExitCode::Internal,
        }
    }

    fn details(&self) -> Option<Value> {
        match self {
            Self::Partly { totals, source } => {
                let mut details = json!({ "schema": "kubexm.io/seed/v1", "pushed": totals });
                if let (Some(map), Some(more)) = (details.as_object_mut(), source.details()) {
                    map.insert("problem".to_owned(), more);
                }
                Some(details)
            }
            Self::TagsTaken(all) => Some(json!(
                all.iter()
                    .map(|one| json!({"name": one.name, "found": one.found, "wanted": one.wanted}))
                    .collect::<Vec<_>>()
            )),
            Self::Collides(all) => {
                Some(json!(all.iter().map(|one| json!({"name": one.name, "of": one.of})).collect::<Vec<_>>()))
            }
            _ => None,
        }
    }
}
