//! Plan lint: what must hold of every plan before a host is touched. All problems are returned.

use std::collections::BTreeMap;

use crate::{Plan, StepId};

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Worth knowing.
    Warning,
    /// The plan is refused.
    Error,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// How bad.
    pub severity: Severity,
    /// Name of the rule, `unique-ids`.
    pub rule: &'static str,
    /// Where.
    pub step: Option<StepId>,
    /// What, and how to mend it.
    pub text: String,
}

/// A plan that has passed the lint; the only kind that the engine takes.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedPlan(Plan);

impl CheckedPlan {
    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.0
    }
}

/// Checks a plan against every rule. Warnings pass and are returned beside the plan.
pub fn check(plan: Plan) -> Result<(CheckedPlan, Vec<Problem>), Vec<Problem>> {
    let problems: Vec<Problem> = unique_ids(&plan);
    if problems.iter().any(|p| p.severity == Severity::Error) {
        Err(problems)
    } else {
        Ok((CheckedPlan(plan), problems))
    }
}

fn unique_ids(plan: &Plan) -> Vec<Problem> {
    let mut seen = BTreeMap::new();
    for step in &plan.steps {
        *seen.entry(&step.id).or_insert(0) += 1;
    }
    seen.into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(id, count)| Problem {
            severity: Severity::Error,
            rule: "unique-ids",
            step: Some(id.clone()),
            text: format!("{count} steps have the id {id}; this is a fault of the recipe"),
        })
        .collect()
}
