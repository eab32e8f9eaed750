//! Requirements → Resolution: where each artifact may be fetched in this zone. Pure.

use kubexm_manifests::requirements::{ChartSource, Source, chart_index};
use kubexm_manifests::{Requirement, Requirements, Zone};
use kubexm_transport::{FileCandidate, ImageCandidate};

/// Every requirement with its candidates, in the order of the requirements.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// `metadata.name`.
    pub name: String,
    /// `v1.34.4`; none in a bundle of extras only.
    pub kubernetes: Option<String>,
    /// Name of the zone.
    pub zone: String,
    /// One per requirement.
    pub items: Vec<Resolved>,
}

/// A requirement and where it may come from.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// What is needed.
    pub requirement: Requirement,
    /// Where from.
    pub candidates: Candidates,
}

/// Candidates in the order they are asked.
#[derive(Clone, Debug)]
pub enum Candidates {
    /// A file, and the file that holds its checksum.
    File {
        /// Of the file.
        file: Vec<FileCandidate>,
        /// Of its checksum; empty when the digest is pinned.
        checksum: Vec<FileCandidate>,
    },
    /// An image.
    Image(Vec<ImageCandidate>),
    /// A chart: its repository's index, or its repository in a registry.
    Chart(ChartCandidates),
    /// On this machine.
    Local,
}

/// Where a chart is asked for, in order.
#[derive(Clone, Debug)]
pub enum ChartCandidates {
    /// The index.yaml of a repository, and what rewrites the addresses that it names.
    Repository {
        /// Of the index.
        index: Vec<FileCandidate>,
        /// For the chart's own address.
        zone: Zone,
    },
    /// Of a registry.
    Oci {
        /// Of the repository.
        repositories: Vec<ImageCandidate>,
    },
}

impl Candidates {
    /// The addresses in order, as people may see them: without a query, which may be a key.
    pub fn shown(&self) -> Vec<String> {
        self.addresses().iter().map(|address| shown(address)).collect()
    }

    /// The addresses in order, as a lock has them.
    pub fn addresses(&self) -> Vec<String> {
        match self {
            Self::File { file, .. } => file.iter().map(|c| c.url.clone()).collect(),
            Self::Image(images) => images.iter().map(|c| format!("{}/{}", c.registry, c.repository)).collect(),
            Self::Chart(ChartCandidates::Repository { index, .. }) => index.iter().map(|c| c.url.clone()).collect(),
            Self::Chart(ChartCandidates::Oci { repositories }) => {
                repositories.iter().map(|c| format!("oci://{}/{}", c.registry, c.repository)).collect()
            }
            Self::Local => Vec::new(),
        }
    }
}

/// An address without a query; the name of an image as it is.
pub(crate) fn shown(address: &str) -> String {
    match address.starts_with("http") && address.contains("://") {
        true => kubexm_transport::http::shown(address),
        false => address.to_owned(),
    }
}

/// Rewrites every origin by the zone's rules.
pub fn resolve(requirements: &Requirements, zone: &Zone) -> Resolution {
    let items = requirements
        .items
        .iter()
        .map(|requirement| Resolved { requirement: requirement.clone(), candidates: candidates(requirement, zone) })
        .collect();
    Resolution {
        name: requirements.name.clone(),
        kubernetes: requirements.versions.as_ref().map(|versions| versions.kubernetes_tag()),
        zone: zone.name.clone(),
        items,
    }
}

/// Where one artifact may be fetched.
pub fn candidates(requirement: &Requirement, zone: &Zone) -> Candidates {
    match &requirement.source {
        Source::File { url, sha256, checksum_url, .. } => Candidates::File {
            file: files(zone, url),
            // A pinned digest needs nobody to say it.
            checksum: match sha256 {
                Some(_) => Vec::new(),
                None => checksum_url.as_deref().map(|url| files(zone, url)).unwrap_or_default(),
            },
        },
        Source::Image { reference, .. } => Candidates::Image(images(zone, reference)),
        Source::Chart { chart } => chart_candidates(chart, zone),
        Source::LocalFile { .. } | Source::LocalImage { .. } | Source::LocalYaml { .. } | Source::Installer => {
            Candidates::Local
        }
    }
}

fn chart_candidates(chart: &ChartSource, zone: &Zone) -> Candidates {
    match chart {
        ChartSource::Repository { url, .. } => {
            Candidates::Chart(ChartCandidates::Repository { index: files(zone, &chart_index(url)), zone: zone.clone() })
        }
        ChartSource::Oci { reference, .. } => {
            let name = reference.strip_prefix("oci://").unwrap_or(reference);
            Candidates::Chart(ChartCandidates::Oci { repositories: images(zone, name) })
        }
        ChartSource::Path { .. } => Candidates::Local,
    }
}

pub(crate) fn files(zone: &Zone, url: &str) -> Vec<FileCandidate> {
    zone.files(url)
        .into_iter()
        .map(|c| FileCandidate { plain_http_allowed: c.plain_http, url: c.url, ca_file: c.ca_file })
        .collect()
}

pub(crate) fn images(zone: &Zone, reference: &str) -> Vec<ImageCandidate> {
    zone.images(reference)
        .into_iter()
        .map(|c| {
            let (name, _) = kubexm_spec::depot::split_reference(&c.reference);
            let repository = name.strip_prefix(&c.registry).unwrap_or(name).trim_start_matches('/').to_owned();
            ImageCandidate { registry: c.registry, repository, plain_http: c.plain_http, ca_file: c.ca_file }
        })
        .collect()
}
