//! One chart with the values that it is rendered with.

use std::path::PathBuf;

use kubexm_spec::ArtifactKey;
use kubexm_spec::rendering::merged;
use serde_json::{Map, Value};

/// How one chart (or YAML add-on) is rendered.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartRelease {
    /// `chart/NAME` or `yaml/NAME`.
    pub key: ArtifactKey,
    /// Of helm's release.
    pub name: String,
    /// Namespace of its objects that name none.
    pub namespace: String,
    /// What stands for what only the site knows (addresses, numbers of hosts), below all other values. It changes no image.
    pub(crate) placeholders: Map<String, Value>,
    /// Built-in values: file and values are merged over them.
    pub defaults: Map<String, Value>,
    /// Laid over those of `values_file`, see [`kubexm_spec::rendering::merged`].
    pub values: Map<String, Value>,
    /// As written, relative to cluster.yaml; the builder makes it ready to be opened.
    pub values_file: Option<PathBuf>,
}

impl ChartRelease {
    /// The values that images are learnt from, with placeholders of the site. `file` is what `values_file` holds.
    pub fn rendered(&self, file: Map<String, Value>) -> Map<String, Value> {
        merged(merged(merged(self.placeholders.clone(), &self.defaults), &file), &self.values)
    }
}
