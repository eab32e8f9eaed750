//! The record of what was applied, without deleted hosts.

use std::collections::BTreeSet;

use kubexm_plan::cluster_facts::AppliedCluster;
use kubexm_plan::cluster_facts::applied;
use kubexm_plan::op::KubeObject;
use kubexm_plan::{Step, Undo};
use kubexm_spec::Digest;

use super::context::DeleteContext;
use crate::error::RecipeError;
use crate::modules::record;

/// The step that writes the record and the text of its object; none if the record does not name the hosts, or there is
/// none that can be read.
pub(super) fn without(
    cx: &DeleteContext<'_>,
    on: &str,
    gone: &BTreeSet<&str>,
) -> Result<Option<(Step, String)>, RecipeError> {
    let Some(found) = &cx.running.applied else { return Ok(None) };
    let mut cluster = found.cluster.clone();
    record::remove_hosts(&mut cluster, gone);
    if cluster == found.cluster {
        return Ok(None);
    }
    let program = record::PROGRAM.to_owned();
    let text =
        record::object(&AppliedCluster { cluster, program, cluster_sha256: cx.cluster_digest, ..found.clone() })?;
    let step = Step::on(on, "record.applied", "Record in the cluster what it consists of")
        .ensure(KubeObject::new(applied::CONFIG_MAP, Digest::of(&text)))
        .retries(3)
        .undo(Undo::RestoreBefore)
        .build();
    Ok(Some((step, text)))
}
