//! The input of an explanation.

use kubexm_manifests::{Catalogue, Requirements};
use kubexm_spec::{ArtifactKey, Cluster, Lock};

/// What is asked about.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// Its paths do not matter.
    pub cluster: &'a Cluster,
    /// With overlays.
    pub catalogue: &'a Catalogue,
    /// Of this cluster.
    pub requirements: &'a Requirements,
    /// The images of each chart and YAML add-on, where a rendering is known ([`crate::charts::known`]).
    pub charts: &'a [(ArtifactKey, Option<Vec<String>>)],
    /// Where there is one: packages that others need are known by it only.
    pub lock: Option<&'a Lock>,
}
