//! A pod network that is installed from its chart.

use kubexm_manifests::ChartRelease;
use kubexm_plan::Step;
use kubexm_plan::op::HelmRelease;
use kubexm_plan::step::{NoUndo, StepBuilder};
use kubexm_spec::cluster::Keyword as _;
use serde_json::{Map, Value};

use crate::charts;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::release;

/// The chart of the cluster's network, and the values of the site.
pub(super) fn of(cx: &PlanContext<'_>) -> Result<(ChartRelease, Map<String, Value>), RecipeError> {
    let missing = || RecipeError::NotInBundle { missing: vec![format!("chart/{}", cx.cluster.network.plugin.word())] };
    let chart = charts::network(cx).ok_or_else(missing)?;
    let site = charts::site(cx, &chart)?;
    Ok((chart, site))
}

/// Its release. Values may depend on the number of nodes.
pub(super) fn op(
    draft: &mut Draft<'_>,
    first: &PlannedHost<'_>,
    chart: &ChartRelease,
    site: &Map<String, Value>,
) -> Result<HelmRelease, RecipeError> {
    release::op(draft, first, chart, site)
}

/// The step that installs it.
pub(super) fn step(first: &PlannedHost<'_>, id: &str) -> StepBuilder<NoUndo> {
    Step::on(first.name(), id, "Install the pod network with helm").timeout_s(release::TIMEOUT)
}
