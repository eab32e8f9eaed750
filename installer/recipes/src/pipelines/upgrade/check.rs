//! Whether the cluster can be upgraded with this bundle, before anything is changed: every reason against it, and what
//! the operator should know.

mod case;
mod etcd;
mod health;
mod skew;

use kubexm_plan::ClusterFacts;
use kubexm_spec::Version;

use super::found::Found;
use super::members::OwnMembers;
use super::options::UpgradeOptions;
use crate::context::PlanContext;
use crate::error::RecipeError;
use crate::phases::ClusterHosts;
use case::{Case, Lines};

/// Every rule: adds to the problems, and to the warnings.
const RULES: [fn(&Case<'_>, &mut Lines, &mut Lines); 9] = [
    skew::same_cluster,
    skew::one_minor,
    skew::kubelets,
    skew::gone_back,
    health::nodes,
    health::certificates,
    health::budgets,
    etcd::members,
    deprecated_apis,
];

/// Returns the warnings, one sentence each.
pub(super) fn run(
    cx: &PlanContext<'_>,
    site: &ClusterHosts<'_>,
    running: &ClusterFacts,
    (found, own_members): (&Found<'_>, Option<&OwnMembers<'_>>),
    options: &UpgradeOptions,
) -> Result<Lines, RecipeError> {
    let case = Case { cx, site, running, found, own_members, options };
    let (mut problems, mut warnings) = (Lines::new(), Lines::new());
    for rule in RULES {
        rule(&case, &mut problems, &mut warnings);
    }
    match problems.is_empty() {
        true => Ok(warnings),
        false => Err(RecipeError::CannotUpgrade {
            cluster: cx.cluster.name.clone(),
            target: found.target.to_string(),
            problems,
        }),
    }
}

/// APIs that clients have used and that the new version does not have. Objects are stored in a version that stays, so
/// only their clients have to be changed.
fn deprecated_apis(case: &Case<'_>, _: &mut Lines, warnings: &mut Lines) {
    let target = case.found.target.line();
    let gone = |removed: &str| {
        let at = |text: &str| Version::of(text).line();
        at(removed).zip(at(&target)).is_some_and(|(removed, target)| removed <= target)
    };
    let used: Lines = case
        .running
        .deprecated_apis
        .iter()
        .filter(|api| gone(&api.removed_in))
        .map(|api| {
            let by = if api.written_by.is_empty() { "" } else { "; objects were written through it by " };
            format!("{api} (gone in {}{by}{})", api.removed_in, api.written_by.join(", "))
        })
        .collect();
    if !used.is_empty() {
        warnings.push(format!(
            "{} does not have these APIs any more, and clients have used them since the API servers started: {}; the audit \
             log, or `kubectl get --raw /metrics | grep requested_deprecated`, shows more; change those clients first",
            case.found.target,
            used.join(", ")
        ));
    }
}
