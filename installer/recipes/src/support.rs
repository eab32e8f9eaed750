//! The support matrix in the bundle's catalogue.

use kubexm_manifests::{Catalogue, Support};
use kubexm_plan::Facts;
use kubexm_spec::cluster::Kubernetes;
use serde_json::Value;

use crate::error::RecipeError;

/// Requirements of a Kubernetes version (`v1.34.4`).
pub fn of<'a>(catalogue: &'a Catalogue, version: &str) -> Result<&'a Support, RecipeError> {
    let missing = || RecipeError::NotInBundle { missing: vec![format!("catalogue entry for Kubernetes {version}")] };
    catalogue.support(version).ok_or_else(missing)
}

/// Whether kubelet is to run on cgroup v1: the node has it, and the user has set `failCgroupV1: false`.
pub fn cgroup_v1_wanted(kubernetes: &Kubernetes, facts: &Facts) -> bool {
    facts.cgroup_version == 1 && kubernetes.kubelet.get("failCgroupV1") == Some(&Value::Bool(false))
}
