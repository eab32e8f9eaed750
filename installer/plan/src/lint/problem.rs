//! Problems that the lint reports.

use crate::id::StepId;

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// The plan is accepted.
    Warning,
    /// The plan is refused.
    Error,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// How bad.
    pub severity: Severity,
    /// Name of the rule, `unique-ids`.
    pub rule: &'static str,
    /// The step, if the problem concerns one.
    pub step: Option<StepId>,
    /// What is wrong, and how to fix it.
    pub text: String,
}
