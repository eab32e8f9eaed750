//! Why a file cannot be imported.

use kubexm_spec::yaml::Problems;

use super::left::Left;

/// The `apiVersion` of the files that are read.
pub const KUBEKEY: &str = "kubekey.kubesphere.io/v1alpha2";

/// The most values of a document: twice those of a file for a thousand hosts.
pub(super) const MOST: usize = 20_000;

/// Why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is no YAML.
    #[error("it cannot be read:\n{0}")]
    Yaml(Problems),
    /// It is no JSON of pods.
    #[error("it is not a list of pods, as `kubectl get pods -A -o json` prints it: {0}")]
    Pods(String),
    /// Pods with far more values than real ones have.
    #[error(
        "its pods would take more than 4 GiB of memory: import them by namespace (kubectl get pods -n NAMESPACE -o json)"
    )]
    ManyPods,
    /// No file of KubeKey's has so much in it.
    #[error("it has more than {MOST} values, aliases counted as what they stand for")]
    Large,
    /// Another version.
    #[error("it is of {found}, and {KUBEKEY} is read: write it again with the kk of that version")]
    Version {
        /// Its `apiVersion`.
        found: String,
    },
    /// Something else.
    #[error("it holds no Cluster and no Manifest of {KUBEKEY}{}", .found.as_ref().map(|found| format!(", but {found}")).unwrap_or_default())]
    Other {
        /// Its `apiVersion` and `kind`.
        found: Option<String>,
    },
    /// It has settings that cluster.yaml cannot express and without which it would be another cluster.
    #[error("no cluster.yaml can be made from it; fix this in it first:{}", .0.iter().map(|left| format!("\n{left}")).collect::<String>())]
    Refused(Vec<Left>),
    /// An internal data structure could not be serialized.
    #[error("cannot write cluster.yaml as text: {0}")]
    Encode(String),
}
