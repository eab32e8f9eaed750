//! Plan lint: what must hold of every plan before a host is touched. All problems are returned.

mod order;
mod problem;
mod rules;

pub use order::Order;
pub use problem::{Problem, Severity};

use crate::plan::Plan;

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
