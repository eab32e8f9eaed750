//! Errors of the stages, with their exit codes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubexm_archive::{ArchiveError, DamageReport, Incomplete};
use kubexm_engine::EngineError;
use kubexm_engine::backup::BackupError;
use kubexm_engine::link::LinkError;
use kubexm_files::{InputError, MaterialError};
use kubexm_manifests::CatalogueError;
use kubexm_packages::trust::SignError;
use kubexm_plan::lint::Problem;
use kubexm_plan::{ClusterId, Severity};
use kubexm_recipes::RecipeError;
use kubexm_s3::S3Error;
use kubexm_signing::{SigningError, Untrusted};
use kubexm_spec::yaml::Problems;
use kubexm_spec::{ExitCode, ExitError, error_chain};
use serde_json::Value;

use crate::authorities::AuthoritiesError;
use crate::bundle::replace::ReplaceRefused;

/// An error of a [`crate::Session`].
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No bundle at the given path.
    #[error("there is no bundle at {}; name the file that `kubexm-bundle build` wrote", .0.display())]
    NoBundle(PathBuf),
    /// A bundle cannot be opened or read.
    #[error(transparent)]
    Archive(ArchiveError),
    /// Content of a bundle does not match its digest.
    #[error("{}", every_damage(.0))]
    Damaged(Box<DamageReport>),
    /// A bundle does not contain something that it references.
    #[error("{}", all_that_lacks(.0))]
    Incomplete(Box<Incomplete>),
    /// The catalogue of a bundle cannot be used.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The values file of an add-on cannot be used.
    #[error("valuesFile {}: {problem}", path.display())]
    ValuesFile { path: PathBuf, problem: String },
    /// The lock of a bundle cannot be read.
    #[error("lock.yaml of {}: {reason}", bundle.display())]
    Lock {
        /// The bundle.
        bundle: PathBuf,
        reason: String,
    },
    /// A package, or the packages of an operating system, do not match the bundle's lock or manifest.
    #[error("{what}{reason}")]
    Packages {
        /// The package and its bundle, or the operating system; a prefix of the reason.
        what: String,
        /// What is wrong.
        reason: String,
    },
    /// Metadata of packages cannot be signed.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// The key that signs metadata of packages cannot be used.
    #[error("{}: {error}", path.display())]
    SiteKey {
        /// Its file.
        path: PathBuf,
        error: SignError,
    },
    /// A key or a signature cannot be read.
    #[error(transparent)]
    Signing(#[from] SigningError),
    /// A bundle does not have the required signatures.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// A bundle may not replace the installed one.
    #[error(transparent)]
    Replace(#[from] Box<ReplaceRefused>),
    /// The controller's record of a cluster's bundle cannot be read.
    #[error(
        "{} says which bundle is installed, and cannot be read: {problem}; use the kubexm-install that wrote it, or remove the file \
         when you know which bundle is installed",
        path.display()
    )]
    Installed {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file that the operator names cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Texts that cluster.yaml names cannot be used.
    #[error("{}", MaterialError::all(.0))]
    Materials(Arc<Vec<MaterialError>>),
    /// Secrets that cluster.yaml names cannot be obtained.
    #[error("{}", .0.join("\n"))]
    Secrets(Vec<String>),
    /// cluster.yaml has problems.
    #[error("{name} has problems:\n{problems}")]
    Problems {
        /// The file.
        name: String,
        /// All of them.
        problems: Problems,
    },
    /// Neither a cluster.yaml nor a bundle was named.
    #[error("name the cluster with -f cluster.yaml or --bundle FILE")]
    NoCluster,
    /// The cluster.yaml is from a bundle without a trusted signature, and nobody can be asked.
    #[error(
        "{bundle}, so its own cluster.yaml is not used without your consent, and there is no terminal to ask on. \
         Nothing of it was read, and no host was contacted. It asks:\n{}\nto continue: give a cluster.yaml of your \
         own with -f (`kubexm-bundle cat BUNDLE cluster.yaml` prints this one), or accept this one with \
         --allow-unsigned; or have the bundle signed, and trust the key with --key",
        wanted.join("\n")
    )]
    UnsignedCluster {
        /// The bundle, and why its signature is not trusted.
        bundle: String,
        /// Hosts and secrets, one line each.
        wanted: Vec<String>,
    },
    /// The answer to [`crate::Confirm::trust_cluster`] was no.
    #[error("declined; nothing was read and no host was contacted. To use a cluster.yaml of your own, give it with -f")]
    UnsignedDeclined,
    /// The answer to [`crate::Confirm::confirm`] was no.
    #[error("declined; nothing was changed")]
    Declined,
    /// [`crate::Session::cancel`] was cancelled before anything was changed.
    #[error("interrupted; nothing was changed")]
    Interrupted,
    /// No plan can be made.
    #[error("{}", chains(.0))]
    Recipe(Vec<RecipeError>),
    /// The hosts do not pass preflight.
    #[error("preflight failed, and nothing was changed:\n{table}")]
    Preflight {
        /// The findings, for people.
        table: String,
        /// The findings, as JSON.
        document: Value,
    },
    /// A plan does not pass its lint.
    #[error("the plan does not pass its lint:{}", errors_of(.0))]
    Lint(Vec<Problem>),
    /// A plan belongs to another cluster with the same name.
    #[error(
        "the plan was made for the cluster {cluster} with id {planned}, and the hosts belong to the one with id {found}; create the \
         plan again, or reset the hosts first"
    )]
    ClusterMismatch {
        /// `metadata.name`.
        cluster: String,
        planned: ClusterId,
        found: ClusterId,
    },
    /// What was asked for needs a cluster whose hosts are all in it.
    #[error(
        "not every host of cluster.yaml is in the cluster {cluster} yet, so there is nothing to compare with; `kubexm-install create` \
             or `add-node` brings them in"
    )]
    NotCreated {
        /// `metadata.name`.
        cluster: String,
    },
    /// What hosts say of the id of their cluster does not agree with what is known of it.
    #[error("it is not certain which cluster {cluster} is, and nothing was changed: {why}")]
    IdUnproven {
        /// `metadata.name`.
        cluster: String,
        /// Who says what, and what to do.
        why: String,
    },
    /// No control plane says which add-ons are installed.
    #[error("no control plane of cluster {cluster} says what is installed: {why}")]
    NoAddons {
        /// `metadata.name`.
        cluster: String,
        /// Of each that was asked.
        why: String,
    },
    /// Images that would go from the registry are used, or it is not known.
    #[error(
        "the registry is not pruned, since images of bundles that would be removed are used in the cluster, or it is not known whether they are: {seen}; \
         keep those bundles (`--keep`), or move what uses the images to others first; nothing was changed"
    )]
    ImagesUsed {
        /// By what.
        seen: String,
    },
    /// A run from before a removal of bundles.
    #[error(
        "run {run} can neither be continued nor rolled back: since it began, `registry prune` (run {by}) has deleted content of bundles on \
         {host}, which the run would serve again; run `kubexm-install create` or `upgrade` with the bundle that the cluster is to have, which begins \
         with what it finds. If nobody has removed anything there, that host does not tell the truth: take it off the network, and run the same command \
         with `--unreachable skip`"
    )]
    PrunedSince {
        run: String,
        host: String,
        /// The run of the removal.
        by: String,
    },
    /// A run that an adopted cluster is not changed by.
    #[error("run {run} is neither continued nor rolled back on {host}: {why}; nothing was changed")]
    OfAdopted {
        run: String,
        /// A control plane.
        host: String,
        why: String,
    },
    /// Charts that cannot be installed.
    #[error("add-ons cannot be installed, and nothing was changed:\n{}", .problems.join("\n"))]
    Charts {
        /// Every one of them, with what can be done.
        problems: Vec<String>,
        code: ExitCode,
    },
    /// The authorities of the cluster cannot be used from this home.
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
    /// A backup cannot be made or used.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The server of a bucket.
    #[error(transparent)]
    S3(Box<S3Error>),
    /// The system returned no random numbers.
    #[error("no id can be generated for the cluster, since the system's random source failed: {0}")]
    NoRandom(String),
    /// A plan from a file does not belong to this bundle and cluster.
    #[error("{}: {reason}", path.display())]
    PlanFile {
        /// Its file.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// A plan cannot be written.
    #[error("the plan cannot be written as JSON: {0}")]
    WritePlan(serde_json::Error),
    /// A drill names a step that the plan does not have.
    #[error("--drill fail:{0}: the plan has no such step; `kubexm-install plan create --text` lists them")]
    NoStepToFail(String),
    /// Hosts cannot be used.
    #[error("{}{hint}", chains(errors))]
    Links {
        /// One for each host.
        errors: Vec<LinkError>,
        /// A hint on a separate line, or empty.
        hint: String,
    },
    /// A run cannot be chosen.
    #[error("{0}")]
    Run(String),
    /// A run that may be meant cannot be read.
    #[error("{text}")]
    UnreadableRun { text: String, code: ExitCode },
    /// A run cannot be created, read or resumed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The engine could not continue a run.
    #[error("{}\nto continue: {command}", error_chain(error))]
    Stopped {
        error: Box<EngineError>,
        /// The command that resumes it.
        command: String,
    },
    /// The cluster runs, but its kubeconfig could not be fetched or stored.
    #[error(
        "the cluster is up, but its kubeconfig could not be fetched: {}\nit is on the first control plane as \
         /etc/kubernetes/admin.conf",
        error_chain(.0)
    )]
    Kubeconfig(Box<SessionError>),
    /// A file or folder of the controller.
    #[error("cannot {action} {}: {reason}", path.display())]
    Disk {
        /// `read`, `write` …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        reason: String,
    },
    /// A thread ended unexpectedly.
    #[error("{0} panicked; this is a bug in kubexm-install")]
    Crashed(String),
}

impl SessionError {
    /// A file of the controller that cannot be read or written.
    pub fn disk(action: &'static str, path: &Path, reason: &dyn std::error::Error) -> Self {
        Self::Disk { action, path: path.to_owned(), reason: reason.to_string() }
    }

    /// Every host that could not be used, reported together.
    pub fn links(errors: impl IntoIterator<Item = LinkError>) -> Self {
        Self::Links { errors: errors.into_iter().collect(), hint: String::new() }
    }
}

impl From<ArchiveError> for SessionError {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Io { path, source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Self::NoBundle(path)
            }
            error => Self::Archive(error),
        }
    }
}

impl From<S3Error> for SessionError {
    fn from(error: S3Error) -> Self {
        match error {
            S3Error::Stopped => Self::Interrupted,
            error => Self::S3(Box::new(error)),
        }
    }
}

impl From<RecipeError> for SessionError {
    fn from(error: RecipeError) -> Self {
        Self::Recipe(vec![error])
    }
}

impl ExitError for SessionError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::ValuesFile { .. } => ExitCode::Config,
            Self::NoBundle(_) | Self::Lock { .. } => ExitCode::NotABundle,
            Self::Archive(error) => error.exit_code(),
            Self::Damaged(report) => report.exit_code(),
            Self::Incomplete(error) => error.exit_code(),
            Self::Catalogue(error) => error.exit_code(),
            Self::Packages { .. } => ExitCode::BundleDamaged,
            Self::Sign(error) | Self::SiteKey { error, .. } => error.exit_code(),
            Self::Signing(error) => error.exit_code(),
            Self::Untrusted(error) => error.exit_code(),
            Self::Replace(_) => ExitCode::BundleUntrusted,
            Self::Installed { .. } => ExitCode::Config,
            Self::Input(error) => error.exit_code(),
            Self::Secrets(_) => ExitCode::Config,
            Self::Materials(errors) => MaterialError::exit_code_of(errors),
            Self::Problems { problems, .. } => problems.exit_code(),
            Self::NoCluster | Self::NoStepToFail(_) | Self::Run(_) | Self::PrunedSince { .. } => ExitCode::Usage,
            Self::UnsignedCluster { .. } => ExitCode::UnsignedCluster,
            Self::UnsignedDeclined | Self::Declined | Self::Interrupted => ExitCode::Declined,
            // The most severe exit code is used.
            Self::Recipe(errors) => errors.iter().map(RecipeError::exit_code).max().unwrap_or(ExitCode::Internal),
            Self::Links { errors, .. } => errors.iter().map(LinkError::exit_code).max().unwrap_or(ExitCode::Internal),
            Self::Preflight { .. } => ExitCode::Preflight,
            Self::OfAdopted { .. } => ExitCode::Unsupported,
            Self::Lint(_) => ExitCode::PlanLint,
            Self::ClusterMismatch { .. } | Self::NotCreated { .. } => ExitCode::Preflight,
            Self::IdUnproven { .. } => ExitCode::HostUntrusted,
            Self::NoAddons { .. } => ExitCode::HostUnreachable,
            Self::ImagesUsed { .. } => ExitCode::Preflight,
            Self::Charts { code, .. } | Self::UnreadableRun { code, .. } => *code,
            Self::Authorities(error) => error.exit_code(),
            Self::Backup(error) => error.exit_code(),
            Self::S3(error) => error.exit_code(),
            Self::NoRandom(_) => ExitCode::Internal,
            Self::PlanFile { .. } => ExitCode::PlanMismatch,
            Self::Engine(error) => error.exit_code(),
            Self::Stopped { error, .. } => error.exit_code(),
            Self::Kubeconfig(error) => error.exit_code(),
            Self::Disk { .. } => ExitCode::Disk,
            Self::WritePlan(_) | Self::Crashed(_) => ExitCode::Internal,
        }
    }

    fn details(&self) -> Option<Value> {
        match self {
            Self::Preflight { document, .. } => Some(document.clone()),
            Self::Replace(refused) => serde_json::to_value(refused).ok(),
            Self::Lint(problems) => Some(serde_json::to_value(problems).unwrap_or_default()),
            _ => None,
        }
    }
}

/// Lists every damaged place.
fn every_damage(report: &DamageReport) -> String {
    let mut text = report.to_string();
    for damage in &report.damages {
        text.push_str(&format!("\n- {}", damage.describe_for(&report.path)));
    }
    text
}

/// Lists everything that is missing.
fn all_that_lacks(error: &Incomplete) -> String {
    let mut text = error_chain(error);
    if let Incomplete::Missing { missing, .. } = error {
        missing.iter().for_each(|missing| text.push_str(&format!("\n- {missing}")));
    }
    text
}

fn chains<E: std::error::Error>(errors: &[E]) -> String {
    errors.iter().map(|error| error_chain(error)).collect::<Vec<_>>().join("\n")
}

/// A problem of a plan, with its rule and step.
pub(crate) fn problem_text(problem: &Problem) -> String {
    match &problem.step {
        Some(step) => format!("{} ({}): {}", problem.rule, step, problem.text),
        None => format!("{}: {}", problem.rule, problem.text),
    }
}

fn errors_of(problems: &[Problem]) -> String {
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    errors.map(|problem| format!("\n- {}", problem_text(problem))).collect()
}
