//! The versions in a bundle that a running cluster is compared with.

use kubexm_spec::{ClusterImage, depot};

use crate::context::PlanContext;
use crate::error::RecipeError;
use crate::runtime;

/// Versions in a bundle, of its first platform; those of one bundle are the same for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleVersions {
    /// `v1.34.4`.
    pub kubernetes: String,
    /// `2.2.7`, of the runtime of cluster.yaml.
    pub runtime: Option<String>,
    /// `3.6.5`.
    pub etcd: Option<String>,
}

impl BundleVersions {
    /// Reads them from a bundle's manifest.
    ///
    /// # Errors
    /// It has no Kubernetes.
    pub fn of(cx: &PlanContext<'_>) -> Result<Self, RecipeError> {
        let platform = *cx.manifest.platforms.first().ok_or(RecipeError::NoCluster)?;
        let etcd = cx.image(ClusterImage::Etcd, platform).ok();
        // `3.6.5-0`: the last part counts builds of the image.
        let version = |name: &str| {
            let tag = depot::split_reference(name).1?;
            Some(tag.split_once('-').map_or(tag, |(version, _)| version).to_owned())
        };
        Ok(Self {
            kubernetes: cx.kubernetes_version(platform)?,
            runtime: runtime::version_for(cx, platform).map(str::to_owned),
            etcd: etcd.and_then(|artifact| version(&artifact.name)),
        })
    }
}
