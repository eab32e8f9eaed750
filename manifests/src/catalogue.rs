//! The catalogue: components, releases, image sets, pins and OS profiles, embedded at compile time, overlaid by the user,
//! and (the part that was used) carried in the bundle as `catalogue.json`.

use std::collections::BTreeMap;

use kubexm_spec::{ArtifactKey, Digest, Program, Trust, json};
use serde::{Deserialize, Serialize};

use crate::component::Component;
use crate::error::CatalogueError;
use crate::feature::FeatureSet;
use crate::image::ImageRule;
use crate::limits;
use crate::migrate;
use crate::os::OsProfile;
use crate::release::{Release, Support};
use crate::version;

pub use crate::migrate::{SCHEMA, SCHEMA_1};

/// What the values of a catalogue may take as memory, in bytes: today's take some 20 MiB.
const MEMORY_LIMIT: usize = 512 << 20;
/// Programs of Kubernetes that every node has, whatever runs the control plane.
const OF_NODES: [Program; 3] = [Program::Kubeadm, Program::Kubelet, Program::Kubectl];

/// Everything that is known about versions, origins and digests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Catalogue {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Names of the overlays, in the order they were laid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlays: Vec<String>,
    /// The default Kubernetes: a minor (`1.34`), or in a bundle's catalogue the exact version.
    pub kubernetes: String,
    /// By name.
    pub components: BTreeMap<String, Component>,
    /// By minor.
    pub releases: BTreeMap<String, Release>,
    /// Images that recipes name by type.
    pub images: Vec<ImageRule>,
    /// Features by name: image sets of what recipes do not name by type, charts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub features: BTreeMap<String, FeatureSet>,
    /// Digests that images are held to, by full reference.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pins: BTreeMap<String, ImagePin>,
    /// Operating systems by profile name.
    pub os: BTreeMap<String, OsProfile>,
}

/// What a tag must point at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImagePin {
    /// Of the index, or of the manifest where there is no index.
    pub digest: Digest,
    /// Who says so.
    pub trust: Trust,
}

impl Catalogue {
    /// The component of a program.
    pub fn component(&self, program: Program) -> Option<&Component> {
        self.components.get(program.name())
    }

    /// The licence that upstream declares for an artifact, as an SPDX identifier; of what users add nothing is known.
    pub fn licence(&self, key: &ArtifactKey) -> Option<&str> {
        match key {
            ArtifactKey::Binary(program) => self.component(*program)?.licence.as_deref(),
            ArtifactKey::Image(image) => self.images.iter().find(|rule| rule.name == image.name())?.licence.as_deref(),
            ArtifactKey::FeatureImage(name) => {
                let of = |feature: &&FeatureSet| feature.images.iter().any(|image| image.name == *name);
                self.features.values().find(of)?.licence.as_deref()
            }
            ArtifactKey::Installer
            | ArtifactKey::ExtraFile(_)
            | ArtifactKey::ExtraImage(_)
            | ArtifactKey::Chart(_)
            | ArtifactKey::Yaml(_)
            | ArtifactKey::ChartImage(_)
            | ArtifactKey::Material(_)
            | ArtifactKey::Package { .. } => None,
        }
    }

    /// The release of a Kubernetes version or minor, with or without `v`.
    pub fn release(&self, kubernetes: &str) -> Option<&Release> {
        self.releases.get(version::minor(kubernetes))
    }

    /// What a Kubernetes version runs on.
    pub fn support(&self, kubernetes: &str) -> Option<&Support> {
        self.release(kubernetes).map(|release| &release.support)
    }

    /// The newest patch of a minor (`1.34`) of which the catalogue has every program that nodes run.
    pub fn newest_patch(&self, minor: &str) -> Option<&str> {
        version::newest(self.patches(minor, &OF_NODES))
    }

    /// The newest of these patches whose images were compared with upstream.
    pub fn newest_verified_patch(&self, minor: &str) -> Option<&str> {
        self.newest_verified(minor, &OF_NODES)
    }

    /// The newest of [`Self::patches`] whose images were compared with upstream.
    pub(crate) fn newest_verified(&self, minor: &str, programs: &[Program]) -> Option<&str> {
        let release = self.release(minor)?;
        let compared = |version: &&str| {
            version::patch(version)
                .is_some_and(|patch| release.constants(patch).is_some_and(|range| range.verified_for(patch).is_some()))
        };
        version::newest(self.patches(minor, programs).filter(compared))
    }

    /// The patches of a minor that all of these programs have: one that lacks a program was withdrawn in part, or is not
    /// finished. A program that the catalogue does not have at all is in no patch, and is not missed.
    pub(crate) fn patches(&self, minor: &str, programs: &[Program]) -> impl Iterator<Item = &str> {
        let mut components: Vec<&Component> = programs.iter().filter_map(|program| self.component(*program)).collect();
        let first = components.pop();
        let known = first.into_iter().flat_map(move |first| first.versions.range(format!("{minor}.")..));
        known
            .map(|(version, _)| version.as_str())
            .take_while(move |version| version::minor(version) == minor)
            .filter(move |version| components.iter().all(|component| component.versions.contains_key(*version)))
    }

    /// The profile of an operating system by the fields of os-release.
    pub fn os(&self, id: &str, version_id: &str) -> Option<(&str, &OsProfile)> {
        self.os.iter().find(|(_, os)| os.matches(id, version_id)).map(|(name, os)| (name.as_str(), os))
    }

    /// `catalogue.json`: sorted keys, no blanks, the same bytes for the same catalogue.
    pub fn to_json(&self) -> Result<Vec<u8>, CatalogueError> {
        // through Value, whose maps are sorted
        serde_json::to_value(self)
            .and_then(|value| serde_json::to_vec(&value))
            .map_err(|source| CatalogueError::Json { source })
    }

    /// Reads `catalogue.json`, strictly; one of [`SCHEMA_1`] as what it means today.
    pub fn from_json(bytes: &[u8]) -> Result<Self, CatalogueError> {
        if json::memory_of(bytes) > MEMORY_LIMIT {
            let source = serde::de::Error::custom("it has more values than any catalogue");
            return Err(CatalogueError::Json { source });
        }
        let value = serde_json::from_slice(bytes).map_err(|source| CatalogueError::Json { source })?;
        let value = migrate::to_current(value);
        // Before its fields: those of a later schema are not known here.
        if let Some(found) = value.get("schema").and_then(serde_json::Value::as_str).filter(|found| *found != SCHEMA) {
            return Err(CatalogueError::Schema { found: found.to_owned() });
        }
        limits::check(&value).map_err(|problem| CatalogueError::Json { source: serde::de::Error::custom(problem) })?;
        serde_json::from_value(value).map_err(|source| CatalogueError::Json { source })
    }
}
