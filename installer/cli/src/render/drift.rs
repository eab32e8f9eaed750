//! What is no longer as it was applied. Pure.

use std::fmt::Write;

use kubexm_session::{ChangedField, Comparison, escaped};
use kubexm_spec::{Digest, ExitCode};
use serde_json::{Value, json};

use super::summary;

const SCHEMA: &str = "kubexm.io/drift/v1";

/// For machines. `bundle` is the manifest's digest of the bundle that hosts were compared with.
pub fn document(compared: &Comparison, bundle: Digest) -> Value {
    let Comparison { plan, drift, fields, applied } = compared;
    let plan = plan.plan();
    let steps = drift.steps.iter().filter_map(|changed| {
        let step = plan.step(&changed.step)?;
        Some(json!({
            "step": step.id, "host": step.host, "title": step.title, "differences": changed.differences,
        }))
    });
    let restarts = summary::restarts(plan, drift);
    let restarts = restarts.iter().map(|step| json!({"step": step.id, "host": step.host, "title": step.title}));
    let fields = fields
        .iter()
        .map(|ChangedField { field, applied, wanted }| json!({"field": field, "applied": applied, "wanted": wanted}));
    let code = if compared.is_same() { ExitCode::Ok } else { ExitCode::Drifted };
    json!({
        "schema": SCHEMA, "cluster": plan.cluster_name, "bundle": bundle,
        "appliedBundle": applied.as_ref().map(|applied| applied.manifest),
        "compared": drift.compared, "notCompared": drift.skipped,
        "steps": steps.collect::<Vec<_>>(), "restarts": restarts.collect::<Vec<_>>(), "fields": fields.collect::<Vec<_>>(),
        "exitCode": code.code(),
    })
}

/// For people.
pub fn text(compared: &Comparison, bundle: Digest) -> String {
    let Comparison { plan, drift, fields, applied } = compared;
    let mut text = summary::differences(plan.plan(), drift);
    // Writing to a string cannot fail.
    match applied {
        None => {
            let _ = writeln!(
                text,
                "cluster.yaml was compared with nothing: the cluster has no record of what was applied."
            );
        }
        Some(last) => {
            if !fields.is_empty() {
                let _ = writeln!(text, "cluster.yaml is not the one that was applied:");
            }
            for ChangedField { field, applied, wanted } in fields {
                let (applied, wanted) = (value(applied.as_ref()), value(wanted.as_ref()));
                let _ = writeln!(text, "  {}: {applied} was applied, {wanted} is wanted", escaped(field));
            }
            if last.manifest != bundle {
                let _ = writeln!(text, "The bundle is not the one that was applied: {}.", last.manifest);
            }
        }
    }
    text.trim_end().to_owned()
}

fn value(of: Option<&Value>) -> String {
    of.map_or_else(|| "nothing".to_owned(), |value| escaped(&value.to_string()))
}
