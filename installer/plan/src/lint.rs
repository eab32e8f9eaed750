//! Plan lint: what must hold of every plan before a host is touched. All problems are returned.

mod order;
mod rules;

use crate::{Plan, StepId};

pub use order::Order;

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
    let order = Order::of(&plan);
    let problems: Vec<Problem> = rules::RULES.iter().flat_map(|rule| (rule.run)(rule, &plan, &order)).collect();
    if problems.iter().any(|p| p.severity == Severity::Error) {
        Err(problems)
    } else {
        Ok((CheckedPlan(plan), problems))
    }
}
