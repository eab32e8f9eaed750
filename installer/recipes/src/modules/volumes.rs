//! The folder of volumes on a node (`spec.storage.openebs.basePath`).

use kubexm_plan::op::Dir;
use kubexm_plan::{Step, Undo};

use crate::context::{PlanContext, PlannedHost};

/// The id of [`folder`] on its host.
pub const FOLDER: &str = "volumes.folder";

/// The step of a node that makes the folder of its volumes, which only root can enter. What makes a volume gives everybody the right to
/// write to it (upstream's `mkdir -m 0777`), and a runtime would make the folder around it with 0755.
pub fn folder(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Option<Step> {
    let openebs = cx.cluster.storage.open_ebs.as_ref()?;
    Some(
        Step::on(node.name(), FOLDER, "Make the folder of volumes")
            .ensure(Dir { path: openebs.base_path.clone(), mode: 0o700 })
            .undo(Undo::RestoreBefore)
            .build(),
    )
}
