//! Plan lint: rules that every plan must pass before a host is changed. All problems are returned.

mod order;
mod problem;
mod rules;

pub use order::Order;
pub use problem::{Problem, Severity};

use crate::plan::Plan;

/// A plan that has passed the lint. The engine accepts no other.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedPlan(Plan);

impl CheckedPlan {
    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.0
    }
}

/// Checks a plan against every rule. Warnings do not fail it and are returned with the plan.
pub fn check(plan: Plan) -> Result<(CheckedPlan, Vec<Problem>), Vec<Problem>> {
    let order = Order::of(&plan);
    let problems: Vec<Problem> = rules::RULES.iter().flat_map(|rule| (rule.run)(rule, &plan, &order)).collect();
    if problems.iter().any(|p| p.severity == Severity::Error) {
        Err(problems)
    } else {
        Ok((CheckedPlan(plan), problems))
    }
}
