//! The record in the cluster of what was applied: whoever upgrades, compares or adopts it later starts from it.

use kubexm_plan::cluster_facts::applied::{self, AppliedCluster, recorded};
use kubexm_plan::op::KubeObject;
use kubexm_plan::{Step, StepId, Undo, Vouched};
use kubexm_spec::cluster::document;
use serde_json::json;

use crate::context::{Node, PlanCx};
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;

const PROGRAM: &str = concat!("kubexm-install ", env!("CARGO_PKG_VERSION"));

/// Written last, when the cluster was checked: it says what is, not what is tried.
pub fn finish<'a>(
    draft: &mut Draft<'a>,
    first: &Node<'a>,
    init: &StepId,
    checked: &[StepId],
) -> Result<(), RecipeError> {
    let text = config_map(draft.cx, first)?;
    let text = draft.text(text);
    let step = Step::on(first.name(), "record.applied", "Record in the cluster what was applied")
        .ensure(KubeObject { name: applied::CONFIG_MAP.to_owned(), text })
        .retries(3)
        .undo(Undo::WithParent { step: init.clone() })
        .build();
    let mut chain = Chain::after(checked.iter().cloned());
    chain.then([draft.of_all(step)]);
    draft.add(chain);
    Ok(())
}

/// JSON, which is YAML.
fn config_map(cx: &PlanCx<'_>, first: &Node<'_>) -> Result<String, RecipeError> {
    let unsigned = || Vouched { manifest: cx.manifest_digest, signers: Default::default(), date: None, sequence: None };
    let record = AppliedCluster {
        schema: applied::SCHEMA.to_owned(),
        name: cx.cluster.name.clone(),
        id: cx.cluster_id,
        kubernetes: cx.kubernetes_version(first.platform)?,
        cluster_sha256: cx.cluster_digest,
        cluster: recorded(document(cx.cluster)),
        bundle: cx.vouched.cloned().unwrap_or_else(unsigned),
        program: PROGRAM.to_owned(),
    };
    let fault =
        |error: serde_json::Error| RecipeError::Document { name: applied::CONFIG_MAP, reason: error.to_string() };
    let record = serde_json::to_string(&record).map_err(fault)?;
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": applied::CONFIG_MAP,
            "namespace": applied::NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "kubexm"},
        },
        "data": {applied::KEY: record},
    });
    Ok(serde_json::to_string_pretty(&object).map_err(fault)? + "\n")
}
