//! `create --from-backup`: a cluster as it was, on fresh hosts. The phases are those of `create`; the first control plane begins with the
//! authorities and the data of etcd of the backup.

use kubexm_plan::{Pipeline, Plan};

use crate::context::PlanContext;
use crate::error::RecipeError;
use crate::from_backup::{BackupSource, compare, only_fresh};

/// The plan, and what the operator is warned of.
///
/// # Errors
/// The backup does not belong to cluster.yaml and the bundle, or a host is not fresh.
pub fn create_from_backup(cx: &PlanContext<'_>, source: &BackupSource) -> Result<(Plan, Vec<String>), RecipeError> {
    let compared = compare(cx, source);
    if !compared.problems.is_empty() {
        return Err(RecipeError::CannotUseBackup { problems: compared.problems });
    }
    only_fresh(cx, source)?;
    let cx = PlanContext { cluster_id: Some(source.cluster_id), from_backup: Some(source), ..*cx };
    Ok((super::create::plan_cluster(&cx, Pipeline::CreateFromBackup, &[])?.plan, compared.warnings))
}
