//! A chart of the bundle as a release of helm.

use kubexm_manifests::ChartRelease;
use kubexm_plan::op::{HelmRelease, ReleaseInput};
use kubexm_plan::{StepId, Undo};
use kubexm_spec::Kind;
use serde_json::{Map, Value};

use crate::charts;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::identity::Identity;

/// How long helm waits for the objects of a release, in seconds.
pub const WAIT: u64 = 300;
/// Timeout in seconds of a step with a release. Each of helm's phases waits so long: hooks before and after, the objects; and the same
/// once more, if it has to be undone.
pub const TIMEOUT: u64 = timeout(WAIT);

/// The timeout of a step that waits so long for its objects.
pub const fn timeout(wait: u64) -> u64 {
    4 * wait + 120
}

/// The release, with the values of the user over those of the site.
pub fn op(
    draft: &mut Draft<'_>,
    first: &PlannedHost<'_>,
    release: &ChartRelease,
    site: &Map<String, Value>,
) -> Result<HelmRelease, RecipeError> {
    let cx = draft.cx;
    let chart = cx.artifact(&release.key, first.platform)?.digest;
    let images = cx.manifest.artifacts.iter().filter(|artifact| artifact.key.kind() == Kind::Image);
    let mut images: Vec<String> = images.map(|artifact| artifact.name.clone()).collect();
    images.sort_unstable();
    images.dedup();
    let values = charts::values(cx, release, site);
    let input = ReleaseInput { values, images, ignored: cx.cluster.bundle.ignore_images.clone() };
    let input = serde_json::to_string_pretty(&input)
        .map_err(|error| RecipeError::Document { name: "values of a chart", reason: error.to_string() })?;
    Ok(HelmRelease {
        name: release.name.clone(),
        namespace: release.namespace.clone(),
        chart,
        input: draft.text(input + "\n"),
        slots: Vec::new(),
        wait_s: WAIT,
    })
}

/// With a cluster that this run makes, what is put into it goes by itself; in one that is there already, what was before is
/// restored.
pub fn undo(cx: &PlanContext<'_>, first: &PlannedHost<'_>, init: &StepId) -> Undo {
    match Identity::of(cx.cluster, cx.facts).has_joined(cx.cluster, first.name(), first.facts) {
        true => Undo::RestoreBefore,
        false => Undo::WithParent { step: init.clone() },
    }
}
