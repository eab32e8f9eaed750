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
    /// What was in the file and was not carried over, or was changed, in the order of lines.
    pub left: Vec<Left>,
    /// Fields that the file does not set and whose default in KubeKey differs from kubexm's.
    pub assumed: Vec<Assumed>,
    /// What a build of it would be refused for: versions that the catalogue does not have, what is not published for a platform.
    pub not_buildable: Vec<String>,
}
