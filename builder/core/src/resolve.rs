//! Requirements → Resolution: where each artifact may be fetched in this zone. Pure.

use kubexm_manifests::requirements::Source;
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
    /// On this machine.
    Local,
}

impl Candidates {
    /// The addresses for people, in order.
    pub fn addresses(&self) -> Vec<String> {
        match self {
            Self::File { file, .. } => file.iter().map(|c| c.url.clone()).collect(),
            Self::Image(images) => images.iter().map(|c| format!("{}/{}", c.registry, c.repository)).collect(),
            Self::Local => Vec::new(),
        }
    }
}

/// Rewrites every origin by the zone's rules.
pub fn resolve(requirements: &Requirements, zone: &Zone) -> Resolution {
    let items = requirements
        .items
        .iter()
        .map(|requirement| {
            let candidates = match &requirement.source {
                Source::File { url, checksum_url, .. } => Candidates::File {
                    file: files(zone, url),
                    checksum: checksum_url.as_deref().map(|url| files(zone, url)).unwrap_or_default(),
                },
                Source::Image { reference, .. } => Candidates::Image(images(zone, reference)),
                Source::LocalFile { .. } | Source::LocalImage { .. } | Source::Installer => Candidates::Local,
            };
            Resolved { requirement: requirement.clone(), candidates }
        })
        .collect();
    Resolution {
        name: requirements.name.clone(),
        kubernetes: requirements.versions.as_ref().map(|versions| versions.kubernetes_tag()),
        zone: zone.name.clone(),
        items,
    }
}

fn files(zone: &Zone, url: &str) -> Vec<FileCandidate> {
    zone.files(url)
        .into_iter()
        .map(|c| FileCandidate { plain_http_allowed: c.plain_http, url: c.url, ca_file: c.ca_file })
        .collect()
}

fn images(zone: &Zone, reference: &str) -> Vec<ImageCandidate> {
    zone.images(reference)
        .into_iter()
        .map(|c| {
            let (name, _) = kubexm_spec::depot::split_reference(&c.reference);
            let repository = name.strip_prefix(&c.registry).unwrap_or(name).trim_start_matches('/').to_owned();
            ImageCandidate { registry: c.registry, repository, plain_http: c.plain_http, ca_file: c.ca_file }
        })
        .collect()
}
