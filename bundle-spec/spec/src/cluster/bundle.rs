//! `spec.bundle`: what goes into the bundle beyond what the cluster needs.

use std::path::PathBuf;

use serde::Serialize;

use super::Addon;
use crate::{Digest, Platform};

/// `spec.bundle`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bundle {
    /// `[linux/amd64]`.
    pub platforms: Vec<Platform>,
    /// Operating systems that packages are carried for (`debian-12`), as the catalogue calls them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub os: Vec<String>,
    /// Zone name or path of a zone file; `KMZONE` and `--zone` come first.
    pub zone: Option<String>,
    /// Images beyond the cluster's own.
    pub extra_images: Vec<ExtraImage>,
    /// Files beyond the cluster's own.
    pub extra_files: Vec<ExtraFile>,
    /// Charts that are carried with their images and that the user installs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_charts: Vec<Addon>,
    /// What looks like an image in a chart's rendering and is none, or is never pulled: as the error of a build names it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore_images: Vec<String>,
    /// Optional tools left out (`crictl`, `helm`).
    pub exclude: Vec<String>,
}

impl Default for Bundle {
    fn default() -> Self {
        Self {
            platforms: vec![Platform::LINUX_AMD64],
            os: Vec::new(),
            zone: None,
            extra_images: Vec::new(),
            extra_files: Vec::new(),
            extra_charts: Vec::new(),
            ignore_images: Vec::new(),
            exclude: Vec::new(),
        }
    }
}

/// `{name}` or `{name, from: oci:DIR}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtraImage {
    /// Full reference with tag or digest, `docker.io/library/busybox:1`.
    pub name: String,
    /// An OCI layout on the builder's disk.
    pub from: Option<PathBuf>,
}

/// `{url, sha256}` or `{path}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "type", rename_all_fields = "camelCase")]
pub enum ExtraFile {
    /// Fetched, and trusted by its digest.
    Url {
        /// http or https.
        url: String,
        /// Digest of the content.
        sha256: Digest,
    },
    /// On the builder's disk.
    Path {
        /// As written, relative to cluster.yaml; the builder makes it ready to be opened.
        path: PathBuf,
    },
}
