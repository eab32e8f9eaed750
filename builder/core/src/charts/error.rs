//! What can go wrong with charts, and which exit code that is.

use std::path::PathBuf;

use kubexm_spec::ExitCode;

use super::judge::Gap;

/// An error about a chart or a YAML add-on.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// What an origin sent cannot be used.
    #[error("{item}: the chart of {origin} cannot be used: {problem}")]
    NotAChart {
        /// The artifact's key.
        item: String,
        /// Address or path.
        origin: String,
        /// What is wrong with it.
        problem: String,
        /// Whether it is the user's own.
        local: bool,
    },
    /// The repository has no such chart, or not this version of it.
    #[error("{item}: {index} has no {chart} {version}{}", nearest(.known))]
    NotInIndex {
        /// The artifact's key.
        item: String,
        /// Of the index.
        index: String,
        /// Name in the index.
        chart: String,
        /// As asked for.
        version: String,
        /// The nearest that are there.
        known: Vec<String>,
    },
    /// The repository publishes no digest, so a replaced chart would not be noticed.
    #[error("{item}: {index} has no digest of {chart} {version}; name the file itself: source: {{url: …, sha256: …}}")]
    NoDigest {
        /// The artifact's key.
        item: String,
        /// Of the index.
        index: String,
        /// Name in the index.
        chart: String,
        /// As asked for.
        version: String,
    },
    /// Helm is not available or does not run.
    #[error("charts are rendered to find their images, and helm cannot be used: {reason}; name one with --helm FILE")]
    Helm { reason: String },
    /// Helm refused the chart or its values.
    #[error("{item} cannot be rendered{}: {reason}", with(*.values))]
    Render {
        /// The artifact's key.
        item: String,
        /// Whether values were given.
        values: bool,
        /// Helm's output, or the limit that was exceeded.
        reason: String,
    },
    /// What was rendered, or a YAML add-on, cannot be read.
    #[error("{item}: {place} cannot be read: {problem}")]
    Unreadable {
        /// The artifact's key.
        item: String,
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// The values file of an add-on cannot be used.
    #[error("{item}: valuesFile {}: {problem}", path.display())]
    ValuesFile {
        /// The artifact's key.
        item: String,
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Images that are named and not carried; all of all charts.
    #[error("{}", super::judge::text(.0))]
    Images(Vec<Gap>),
}

impl ChartError {
    /// The exit code of a program that ends with it.
    pub const fn exit_code(&self) -> ExitCode {
        match self {
            Self::NotAChart { local: false, .. } => ExitCode::OriginMismatch,
            Self::NotAChart { local: true, .. } | Self::ValuesFile { .. } | Self::Helm { .. } => ExitCode::Config,
            Self::NotInIndex { .. } | Self::NoDigest { .. } => ExitCode::OriginMissing,
            Self::Render { .. } | Self::Unreadable { .. } => ExitCode::ChartRender,
            Self::Images(_) => ExitCode::ChartImages,
        }
    }
}

fn nearest(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; it has {}", known.join(", ")) }
}

const fn with(values: bool) -> &'static str {
    if values { " with its values" } else { "" }
}
