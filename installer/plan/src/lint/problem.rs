//! What the lint finds.

use crate::id::StepId;

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
    /// What, and how to fix it.
    pub text: String,
}
