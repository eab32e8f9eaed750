//! `plan.json`: a plan with its texts in one file, to be read, reviewed and executed later.

use std::path::Path;

use kubexm_plan::lint;
use kubexm_plan::schema::ReadError;
use kubexm_plan::{CheckedPlan, Plan, Texts};
use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::opened::Opened;
use crate::error::SessionError;

/// The maximum size of a plan file in bytes: much more than a plan for a thousand hosts needs.
const LIMIT: u64 = 1 << 30;

/// The schema of the file. Another one is refused.
const SCHEMA: &str = "kubexm.io/plan/v1";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile<P> {
    schema: String,
    plan: P,
    texts: Texts,
}

/// A plan from a file. Nothing but its digest says that it is the one that somebody has read: a signature of the bundle does not cover it.
#[derive(Clone, Debug)]
pub struct ReviewedPlan {
    pub plan: CheckedPlan,
    /// Of the file.
    pub digest: Digest,
}

/// The plan as one JSON document.
pub fn to_json(plan: &Plan) -> Result<Vec<u8>, SessionError> {
    let file = PlanFile { schema: SCHEMA.to_owned(), plan, texts: plan.texts.clone() };
    let mut bytes = serde_json::to_vec_pretty(&file).map_err(SessionError::WritePlan)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads a plan and checks that it belongs to the bundle and cluster to be used.
pub fn read(path: &Path, opened: &Opened) -> Result<ReviewedPlan, SessionError> {
    let bytes = kubexm_files::read(path, LIMIT)?;
    let refused = |reason: String| SessionError::PlanFile { path: path.to_owned(), reason };
    let digest = Digest::of(&bytes);
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| {
        refused(format!(
            "this is not a plan: {error}; make one with `kubexm-install plan create \
                                          -o`"
        ))
    })?;
    if value.get("schema") != Some(&SCHEMA.into()) {
        return Err(refused(
            "its schema is a different one; run it with the version of kubexm-install that made it".to_owned(),
        ));
    }
    let damaged = |error: serde_json::Error| refused(format!("it is damaged: {error}; make a new one"));
    let PlanFile { plan, texts, .. } = serde_json::from_value::<PlanFile<Value>>(value).map_err(damaged)?;
    let mut plan = Plan::from_json(plan).map_err(|error| match error {
        ReadError::Damaged(error) => damaged(error),
        ReadError::Schema { .. } => refused(format!("{error}; run it with the version of kubexm-install that made it")),
    })?;
    if let Some((digest, _)) = texts.iter().find(|(digest, text)| Digest::of(text) != **digest) {
        return Err(refused(format!("its text {digest} was changed; make a new plan instead")));
    }
    plan.texts = texts;
    let belongs = opened.belongs();
    for (what, planned, given) in
        [("bundle", plan.bundle, belongs.bundle), ("cluster.yaml", Some(plan.cluster), Some(belongs.cluster))]
    {
        if planned != given {
            let shown = |digest: Option<Digest>| digest.map_or_else(|| "none".to_owned(), |d| d.to_string());
            let (planned, given) = (shown(planned), shown(given));
            return Err(refused(format!(
                "it belongs to another {what}: it was made with {planned}, this is {given}; give that one, or make \
                 a new plan"
            )));
        }
    }
    lint::check(plan).map(|(plan, _)| ReviewedPlan { plan, digest }).map_err(SessionError::Lint)
}
