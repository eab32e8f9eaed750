//! What makes volumes (`spec.storage`): charts of the catalogue, as releases of helm on the first control plane. They come before add-ons,
//! which may want volumes, and are otherwise like them.

use kubexm_manifests::{ChartRelease, chart_storage};
use kubexm_plan::cluster_facts::AppliedCluster;
use kubexm_plan::{ClusterFacts, Step, Undo};
use kubexm_spec::cluster::{Cluster, Provisioner};
use serde_json::Value;

use crate::charts;
use crate::context::PlannedHost;
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::release;

/// Whether a release is one of `spec.storage`.
pub fn is_of(cluster: &Cluster, release: &ChartRelease) -> bool {
    chart_storage::of_release(cluster, &release.name).is_some()
}

/// The step that installs it.
pub fn step(
    draft: &mut Draft<'_>,
    first: &PlannedHost<'_>,
    of: &ChartRelease,
    undo: &Undo,
) -> Result<Step, RecipeError> {
    let site = charts::site(draft.cx, of)?;
    let op = release::op(draft, first, of, &site)?;
    Ok(Step::on(first.name(), &format!("storage.{}", of.name), &format!("Install {} with helm", of.name))
        .timeout_s(release::TIMEOUT)
        .ensure(op)
        .undo(undo.clone())
        .build())
}

/// The provisioners of a record of what was applied.
pub fn recorded(applied: Option<&AppliedCluster>) -> impl Iterator<Item = Provisioner> + '_ {
    let storage = applied.and_then(|applied| applied.cluster.pointer("/spec/storage"));
    Provisioner::ALL
        .into_iter()
        .filter(move |provisioner| storage.is_some_and(|storage| !storage[provisioner.key()].is_null()))
}

/// Fails if volumes of a running cluster lie on another export than cluster.yaml names. They would stay where they are, but the
/// provisioner would look for them on the new one when their claims go.
pub fn unchanged(cluster: &Cluster, running: &ClusterFacts) -> Result<(), RecipeError> {
    let Some(nfs) = &cluster.storage.nfs else { return Ok(()) };
    let before = |field: &str| -> Option<&str> {
        running.applied.as_ref()?.cluster.pointer(&format!("/spec/storage/nfs/{field}")).and_then(Value::as_str)
    };
    let differs = |(field, now): (&str, &String)| {
        let before = before(field).filter(|before| before != now)?;
        Some(format!("spec.storage.nfs.{field} is {now}, and the cluster has {before}"))
    };
    let changed: Vec<String> = [("server", &nfs.server), ("path", &nfs.path)].into_iter().filter_map(differs).collect();
    match changed.is_empty() {
        true => Ok(()),
        false => Err(RecipeError::StorageChanged { cluster: cluster.name.clone(), changed }),
    }
}
