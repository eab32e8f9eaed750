//! Requirements → Resolution: where each artifact may be fetched in this zone. Pure.

use kubexm_manifests::requirements::{ChartSource, Source, chart_index};
use kubexm_manifests::{Requirement, Requirements, Zone};
use kubexm_spec::ArtifactKey;
use kubexm_transport::{FileCandidate, ImageCandidate};

use crate::packages::places_of;
use crate::places::{files, images, shown};

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
        let all = match self {
            Self::File { file, .. } => file.iter().map(|c| c.url.clone()).collect(),
            _ => self.addresses(),
        };
        all.iter().map(|address| shown(address)).collect()
    }

    /// The addresses in order, as a lock has them. A folder of this machine exists on no other, and may change.
    pub fn addresses(&self) -> Vec<String> {
        match self {
            Self::File { file, .. } => file.iter().filter(|c| !c.is_local()).map(|c| c.url.clone()).collect(),
            Self::Image(images) => images.iter().map(|c| format!("{}/{}", c.registry, c.repository)).collect(),
            Self::Chart(ChartCandidates::Repository { index, .. }) => {
                index.iter().filter(|c| !c.is_local()).map(|c| c.url.clone()).collect()
            }
            Self::Chart(ChartCandidates::Oci { repositories }) => {
                repositories.iter().map(|c| format!("oci://{}/{}", c.registry, c.repository)).collect()
            }
            Self::Local => Vec::new(),
        }
    }
}

impl Resolved {
    /// The addresses in order, as a lock has them: those of the candidates; the origin, where all of them are folders of this
    /// machine. A package's own address is always there: nothing else knows it.
    pub fn addresses(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for address in self.candidates.addresses() {
            // A rule for a host's certificate leads to the host itself.
            if !address.is_empty() && !all.contains(&address) {
                all.push(address);
            }
        }
        let is_package = matches!(self.requirement.key, ArtifactKey::Package { .. });
        let own = match &self.requirement.source {
            Source::File { url, .. } => Some(url.clone()),
            Source::Chart { chart: ChartSource::Repository { url, .. } } => Some(chart_index(url)),
            _ => None,
        };
        if let Some(own) = own.filter(|own| !own.is_empty() && (all.is_empty() || is_package) && !all.contains(own)) {
            all.push(own);
        }
        all
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
        kubernetes: requirements.versions.as_ref().map(|versions| versions.kubernetes.to_string()),
        zone: zone.name.clone(),
        items,
    }
}

/// Where one artifact may be fetched.
pub fn candidates(requirement: &Requirement, zone: &Zone) -> Candidates {
    match &requirement.source {
        Source::File { url, sha256, checksum_url, .. } => Candidates::File {
            file: match (&requirement.key, requirement.platform) {
                (ArtifactKey::Package { os, .. }, Some(platform)) => places_of(os, platform, url, zone),
                _ => files(zone, url),
            },
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

#[cfg(test)]
mod tests {
    use kubexm_manifests::{Catalogue, require};

    use super::*;

    /// What a lock would have of kubeadm and of an image, in a zone with one rule.
    fn addresses(rule: &str) -> [Vec<String>; 2] {
        let head = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: x}\nspec:\n";
        let cluster = kubexm_spec::cluster::parse(&format!("{head}  kubernetes: {{version: v1.34.4}}\n")).unwrap();
        let needed = require(&cluster, &Catalogue::embedded()).unwrap();
        let resolution = resolve(&needed, &Zone::parse(&format!("name: x\nrules: [{rule}]\n")).unwrap());
        ["binary/kubeadm", "image/pause"].map(|key| {
            let found = resolution.items.iter().find(|item| item.requirement.key.to_string() == key).unwrap();
            found.addresses()
        })
    }

    #[test]
    fn a_lock_has_the_origin_where_files_come_from_a_folder_and_each_address_once() {
        let [own, image] = addresses("");
        assert_eq!((own.len(), image.len()), (1, 1));
        let folder = "{match: dl.k8s.io, to: [\"file:///mnt/mirror\"], only: true}";
        assert_eq!(addresses(folder)[0], own);
        let itself = "{match: dl.k8s.io, to: [\"https://dl.k8s.io\"], certFile: 1.pem, keyFile: 2.pem}";
        assert_eq!(addresses(itself)[0], own);
        let images = "{match: registry.k8s.io, to: [\"file:///mnt/mirror\"], only: true}";
        assert!(addresses(images)[1].is_empty(), "no image is in a folder, and nobody else may be asked");
    }
}
