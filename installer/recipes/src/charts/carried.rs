//! What a bundle has of charts, beside their archives: how they were rendered when it was built. And the manifest of a network without one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubexm_spec::{ArtifactKey, Rendering};
use serde_json::{Map, Value};

/// What a bundle has of charts.
#[derive(Clone, Debug, Default)]
pub struct CarriedCharts {
    /// From its lock.
    pub renderings: Vec<Rendering>,
    /// Values files of the operator's own cluster.yaml, by their paths there. Those of the bundle's are in the renderings.
    pub values_files: BTreeMap<PathBuf, Map<String, Value>>,
    /// Upstream's manifest of the pod network, of a network that comes as one.
    pub manifest: Option<String>,
}

/// Of a bundle without charts.
pub static NO_CHARTS: CarriedCharts =
    CarriedCharts { renderings: Vec::new(), values_files: BTreeMap::new(), manifest: None };

impl CarriedCharts {
    /// The rendering of a chart.
    pub fn of(&self, key: &ArtifactKey) -> Option<&Rendering> {
        self.renderings.iter().find(|rendering| rendering.key == *key)
    }
}
