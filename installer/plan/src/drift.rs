//! What differs on a host from what kubexm or kubeadm wrote there.

use serde::{Deserialize, Serialize};

use crate::id::StepId;

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// What differs: a path, or the description of an op.
    pub what: String,
    /// How it differs, as one phrase: `2 lines added, 1 removed`, `it is missing`.
    pub how: String,
    /// A unified diff. None if the content is not text, is too long, or may be a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// A step whose ops are not all satisfied on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepDrift {
    /// The step.
    pub step: StepId,
    /// What differs; never empty.
    pub differences: Vec<Difference>,
}

/// The files that kubeadm wrote on a node, compared with their content right after its init or join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeadmFiles {
    /// Whether that content was recorded; older versions did not, and nothing can be compared then.
    pub recorded: bool,
    /// Files that differ from it.
    pub changed: Vec<Difference>,
}
