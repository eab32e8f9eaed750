//! What can be wrong with a catalogue, a zone, or a cluster's request to them.

use kubexm_spec::ExitCode;
use kubexm_spec::Platform;

use crate::version;

/// A catalogue or an overlay that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// A compiled-in file is malformed; a test keeps it from happening.
    #[error("embedded catalogue, {file}: {text}")]
    Embedded {
        /// Path under `data/`.
        file: String,
        /// The reader's error.
        text: String,
    },
    /// catalogue.json is not what [`crate::Catalogue::to_json`] writes.
    #[error("catalogue.json cannot be read; was the bundle made by a newer kubexm-bundle?")]
    Json {
        /// Where and what.
        source: serde_json::Error,
    },
    /// catalogue.json is of another schema.
    #[error(
        "catalogue.json has schema {found:?}, this program reads {:?}: use the kubexm-install that came with the bundle",
        crate::catalogue::SCHEMA
    )]
    Schema {
        /// The schema found.
        found: String,
    },
    /// An overlay is wrong; each problem with its line and column.
    #[error("the catalogue overlay is wrong:\n{0}")]
    Overlay(#[source] kubexm_spec::yaml::Problems),
}

impl CatalogueError {
    /// The exit code of a program that ends with it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Embedded { .. } => ExitCode::Internal,
            Self::Json { .. } => ExitCode::BundleDamaged,
            Self::Schema { .. } => ExitCode::BundleNewer,
            Self::Overlay(problems) => problems.exit_code(),
        }
    }
}

/// A package of the container runtime that is too old for the cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "spec.runtime.type {runtime}: {os} has {package} {version}, and {what}, which the cluster needs, comes with {first}: {instead}, and build \
     the bundle again"
)]
pub struct OldRuntimePackage {
    /// `spec.runtime.type`.
    pub runtime: String,
    /// Name of its package.
    pub package: String,
    /// Version of its package.
    pub version: String,
    /// Of `spec.bundle.os`.
    pub os: String,
    /// What it lacks.
    pub what: &'static str,
    /// The first version that has it.
    pub first: String,
    /// What can be done.
    pub instead: &'static str,
}

/// A request of a cluster that the catalogue cannot satisfy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequireError {
    /// No release of that minor.
    #[error(
        "the catalogue has no Kubernetes {version}{}add it with --catalogue: {}",
        named(.nearest),
        new_minor(version, .nearest)
    )]
    UnknownKubernetes {
        /// The requested name or version.
        version: String,
        /// Nearest minors.
        nearest: Vec<String>,
    },
    /// No version of the same minor is known.
    #[error("the catalogue has no {component} {version}{}bring it with --catalogue (components.{component}.versions)", named(.nearest))]
    UnknownVersion {
        /// Component name.
        component: String,
        /// The requested name or version.
        version: String,
        /// Nearest versions.
        nearest: Vec<String>,
    },
    /// No such version of a feature; overlays bring none.
    #[error(
        "the catalogue has no {feature} {version}; nearest: {}. Name one of these{}",
        list(.nearest),
        if *chart { ", or give the source of the chart: an add-on with source: {repo, chart, version}" } else { "" }
    )]
    UnknownFeatureVersion {
        /// Its name in the catalogue.
        feature: String,
        /// Whether it is a chart, which may have another source.
        chart: bool,
        /// The requested name or version.
        version: String,
        /// Nearest versions.
        nearest: Vec<String>,
    },
    /// Something that every cluster needs is missing in the catalogue.
    #[error(
        "the catalogue has no {what} for Kubernetes {kubernetes}: use the catalogue this program was released with, or complete the overlay"
    )]
    Gap {
        /// What is missing.
        what: String,
        /// For which version.
        kubernetes: String,
    },
    /// Neither a pinned digest nor a place where upstream publishes one.
    #[error(
        "no source has a digest for {component} {version} on {platform}: pin one with --catalogue (components.{component}.versions)"
    )]
    NoDigest {
        /// Component name.
        component: String,
        /// Version without `v`.
        version: String,
        platform: Platform,
    },
    /// Upstream builds it for other architectures only.
    #[error(
        "{component} {version} is not published for {platform}: give the address of a build that you trust with --catalogue (components.{component}.urls.{}), and its digest where none is known (components.{component}.versions)", .platform.arch
    )]
    NoOrigin {
        /// Component name.
        component: String,
        /// Version without `v`.
        version: String,
        platform: Platform,
    },
    /// An add-on that the catalogue does not know.
    #[error("{because}: the catalogue has no {name:?}{}state its source", named(.nearest))]
    UnknownFeature {
        /// The field that requests it.
        because: String,
        /// The requested name or version.
        name: String,
        /// Nearest names.
        nearest: Vec<String>,
    },
    /// An add-on that the catalogue knows as a chart only.
    #[error("spec.addons {name}: the catalogue knows it as a chart; give `type: helm`, or the source of the YAML")]
    NoYaml {
        /// The add-on.
        name: String,
    },
    /// A chart of the catalogue, in a bundle without a cluster.
    #[error(
        "spec.bundle.extraCharts {name}: which version of the catalogue's chart it is depends on Kubernetes, and there is no spec.kubernetes; give `repo`, `chart` and `version`, or `oci`"
    )]
    ChartOfNoCluster {
        /// The chart.
        name: String,
    },
    /// Two fields ask for different versions of one thing.
    #[error(
        "{because} requests {feature} {second}, and {first} is already requested: name the same version in both places"
    )]
    TwoVersions {
        /// Its name in the catalogue.
        feature: String,
        /// The version asked for first.
        first: String,
        /// The other.
        second: String,
        /// The field that asks for the other.
        because: String,
    },
    /// Two add-ons of one name.
    #[error("two charts or add-ons are called {name:?}; rename one of them, the bundle holds them by name")]
    SameAddonName {
        /// The name.
        name: String,
    },
    /// The chosen containerd is too old for the chosen Kubernetes.
    #[error(
        "Kubernetes {kubernetes} needs containerd {minimum} or newer, spec.runtime.version is {version}: leave it out, or raise it"
    )]
    TooOld {
        /// Version of Kubernetes.
        kubernetes: String,
        /// The oldest that works.
        minimum: String,
        /// The requested name or version.
        version: String,
    },
    /// An overlay's etcd is older than what kubeadm of this Kubernetes takes.
    #[error(
        "Kubernetes {kubernetes} needs etcd {minimum} or newer, and the catalogue overlay makes it {version}: raise components.etcd.default"
    )]
    EtcdTooOld {
        /// Version of Kubernetes.
        kubernetes: String,
        /// The oldest that works.
        minimum: String,
        /// As the overlay has it.
        version: String,
    },
    /// CRI-O follows Kubernetes minor by minor (its README, "Compatibility matrix").
    #[error(
        "CRI-O has the minors of Kubernetes, and spec.runtime.version {version} is not of Kubernetes {kubernetes}: leave it out{}",
        if known.is_empty() { String::new() } else { format!(", or name one of {}", list(known)) }
    )]
    MinorMismatch {
        /// Version of Kubernetes.
        kubernetes: String,
        /// The requested name or version.
        version: String,
        /// Those that are known of its minor.
        known: Vec<String>,
    },
    /// `spec.kubernetes.featureGates` has what this Kubernetes does not start with.
    #[error("spec.kubernetes.featureGates: Kubernetes {kubernetes} does not start with these; remove or correct them:{}", lines(.problems))]
    FeatureGates {
        /// Version of Kubernetes.
        kubernetes: String,
        /// Each gate, and why.
        problems: Vec<String>,
    },
    /// `spec.bundle.exclude` names a tool that something in the cluster needs.
    #[error("spec.bundle.exclude: {name} cannot be left out, {because}; leave it there, or leave out what it installs")]
    Excluded {
        /// The tool.
        name: String,
        /// `it installs chart/web`.
        because: String,
    },
    /// `spec.bundle.exclude` names something that is no optional tool.
    #[error("spec.bundle.exclude: {name:?} is not an optional tool; those are {}", list(.known))]
    Exclude {
        /// As written.
        name: String,
        /// The optional tools, nearest first.
        known: Vec<String>,
    },
    /// An operating system of `spec.bundle.os` that no profile describes.
    #[error("spec.bundle.os: there is no operating system {name:?}; nearest: {}", list(.nearest))]
    UnknownOs {
        /// As written.
        name: String,
        /// Nearest names.
        nearest: Vec<String>,
    },
    /// An operating system of `spec.bundle.os` has no packages for a platform.
    #[error(
        "spec.bundle.os: {os} has no packages for {platform}, only for {}{}; leave it out, or the platform",
        list(.archs),
        if .nearest.is_empty() { String::new() } else { format!(" (for {platform} there is {})", list(.nearest)) }
    )]
    NoOsForPlatform {
        /// As written.
        os: String,
        /// Of `spec.bundle.platforms`.
        platform: Platform,
        /// Architectures it has packages for.
        archs: Vec<String>,
        /// Other releases of it that have.
        nearest: Vec<String>,
    },
    /// An operating system of `spec.bundle.os` that has no package of the container runtime.
    #[error(
        "{os} has no package of {runtime}, which comes as one: take {os} out of spec.bundle.os (it is in: {}), or name another spec.runtime.type",
        list(.known)
    )]
    NoRuntimeForOs {
        /// `spec.runtime.type`.
        runtime: String,
        /// As written.
        os: String,
        /// Systems that have it.
        known: Vec<String>,
    },
    /// A package of the container runtime that is too old.
    #[error("{0}")]
    OldRuntimePackage(Box<OldRuntimePackage>),
    /// Two different extra files would get one name.
    #[error(
        "spec.bundle.extraFiles: two files are called {name:?}; rename one of them, the bundle serves files by name"
    )]
    SameFileName {
        /// The name.
        name: String,
    },
    /// An operating system of `spec.bundle.os` whose C library is older than what a program was linked against.
    #[error(
        "{program} needs glibc {needs} or newer, and {os} has {glibc}: take {os} out of spec.bundle.os, name a version that runs there, or bring a static build with --catalogue (components.NAME.url, libc: static)"
    )]
    OldGlibc {
        /// Profile's name.
        os: String,
        /// What it has.
        glibc: String,
        /// Name and version.
        program: String,
        /// The oldest glibc that it runs with.
        needs: String,
    },
    /// An extra file whose name no file system takes.
    #[error(
        "spec.bundle.extraFiles: the name of the file at {address:?} has {length} bytes, and file systems take 255 at most; publish it \
         under a shorter one"
    )]
    LongFileName {
        /// Without the name.
        address: String,
        /// Of the name, in bytes.
        length: usize,
    },
    /// An extra file whose address ends without a name.
    #[error("spec.bundle.extraFiles: {address:?} has no file name at its end")]
    NoFileName {
        /// Address or path.
        address: String,
    },
}

impl RequireError {
    /// The exit code of a program that ends with it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::UnknownKubernetes { .. }
            | Self::UnknownVersion { .. }
            | Self::UnknownFeature { .. }
            | Self::UnknownFeatureVersion { .. }
            | Self::Gap { .. }
            | Self::NoOrigin { .. }
            | Self::UnknownOs { .. }
            | Self::NoOsForPlatform { .. }
            | Self::NoDigest { .. } => ExitCode::UnknownVersion,
            Self::TooOld { .. }
            | Self::EtcdTooOld { .. }
            | Self::OldGlibc { .. }
            | Self::NoRuntimeForOs { .. }
            | Self::OldRuntimePackage(_)
            | Self::MinorMismatch { .. }
            | Self::FeatureGates { .. }
            | Self::Exclude { .. }
            | Self::Excluded { .. }
            | Self::SameFileName { .. }
            | Self::NoFileName { .. }
            | Self::LongFileName { .. }
            | Self::NoYaml { .. }
            | Self::ChartOfNoCluster { .. }
            | Self::TwoVersions { .. }
            | Self::SameAddonName { .. } => ExitCode::Config,
        }
    }
}

/// The part of an overlay that adds an unknown minor.
fn new_minor(version: &str, nearest: &[String]) -> String {
    let (minor, like) = (version::minor(version), nearest.first().map_or("", String::as_str));
    format!(
        "releases: {{\"{minor}\": {{like: \"{like}\", constants: {{pause, coredns, etcd}}}}}}, and the versions of its programs \
         (components.kubelet.versions …)"
    )
}

/// What is there instead, if anything is.
fn named(nearest: &[String]) -> String {
    if nearest.is_empty() { ": ".to_owned() } else { format!("; nearest: {}. Name one of these, or ", list(nearest)) }
}

fn lines(all: &[String]) -> String {
    all.iter().map(|one| format!("\n- {one}")).collect()
}

fn list(names: &[String]) -> String {
    names.join(", ")
}
