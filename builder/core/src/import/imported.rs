//! What a file became.

use super::defaults::Assumed;
use super::left::Left;

/// What a file became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// `Cluster`, `Manifest` or `PodList`.
    pub kind: String,
    /// A cluster.yaml that our own reader takes.
    pub cluster_yaml: String,
    /// What it does not say that the file said, or not as it was said, in the order of lines.
    pub left: Vec<Left>,
    /// What the file leaves to KubeKey, where KubeKey's default is another one than ours.
    pub assumed: Vec<Assumed>,
}
