//! Container runtimes: one file for each, with the steps that install, configure and start it. The names of a runtime
//! and its paths on nodes are in [`kubexm_plan::runtime`].

mod containerd;
mod cri_o;
mod of_cluster;

use kubexm_plan::Step;
use kubexm_spec::cluster::RuntimeKind;
use kubexm_spec::{ArtifactKey, Program};

pub use of_cluster::{cgroup_driver, of, upstream_hosts};

use crate::context::{Node, PlanCx};
use crate::draft::Draft;
use crate::error::RecipeError;

/// Refuses a version in the bundle whose configuration no recipe can write.
pub fn unknown_version(cx: &PlanCx<'_>) -> Option<RecipeError> {
    let mut programs = cx.manifest.artifacts.iter().filter(|a| a.key == ArtifactKey::Binary(Program::Containerd));
    programs.find_map(|program| containerd::check_version(&program.version).err())
}

/// Steps: programs, registry configuration, and the running service.
pub fn steps(draft: &mut Draft<'_>, node: &Node<'_>) -> Result<Vec<Step>, RecipeError> {
    match draft.cx.cluster.runtime.kind {
        RuntimeKind::Containerd => containerd::steps(draft, node),
        RuntimeKind::CriO => cri_o::steps(draft, node),
        kind @ (RuntimeKind::Docker | RuntimeKind::Isulad) => Err(RecipeError::Unsupported {
            what: format!("spec.runtime.type {kind}"),
            hint: "name containerd, and build the bundle again".to_owned(),
        }),
    }
}
