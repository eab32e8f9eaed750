//! Add-ons: charts of the bundle, installed by its helm on the first control plane. They are installed in parallel, after the final
//! check of the cluster, which they may need whole: its nodes, its DNS, its pod network.

use kubexm_manifests::ChartRelease;
use kubexm_plan::op::{HelmRelease, ReleaseInput};
use kubexm_plan::{Step, StepId, Undo};
use kubexm_spec::Kind;
use serde_json::Map;

use crate::charts;
use crate::context::{Node, PlanCx};
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::identity::Identity;
use crate::phases::{ControlPlane, Prepared, Site};

/// How long helm waits for the objects of a release, in seconds.
const WAIT: u64 = 300;

/// Adds a step for each chart. Returns the steps that later ones wait for.
pub fn run<'a>(
    draft: &mut Draft<'a>,
    site: &Site<'a>,
    prepared: &Prepared<'a>,
    cluster: &ControlPlane,
    checked: &[StepId],
) -> Result<Vec<StepId>, RecipeError> {
    let mut chain = Chain::after(checked.iter().cloned());
    let releases: Vec<ChartRelease> = charts::of_cluster(draft.cx);
    if !releases.is_empty() {
        chain.wait(prepared.helm.as_slice());
    }
    let steps: Vec<Step> =
        releases.iter().map(|release| step(draft, &site.first, release, cluster)).collect::<Result<_, _>>()?;
    chain.together(steps);
    Ok(draft.add(chain))
}

fn step(
    draft: &mut Draft<'_>,
    first: &Node<'_>,
    release: &ChartRelease,
    cluster: &ControlPlane,
) -> Result<Step, RecipeError> {
    let op = release_op(draft, first, release)?;
    let (name, title) = (format!("addons.{}", release.name), format!("Install {} with helm", release.name));
    Ok(Step::on(first.name(), &name, &title)
        // Each of helm's phases waits so long: hooks before and after, the objects; and the same once more, if it has to be undone.
        .timeout_s(4 * WAIT + 120)
        .ensure(op)
        .undo(undo(draft.cx, first, cluster))
        .build())
}

fn release_op(draft: &mut Draft<'_>, first: &Node<'_>, release: &ChartRelease) -> Result<HelmRelease, RecipeError> {
    let cx = draft.cx;
    let chart = cx.artifact(&release.key, first.platform)?.digest;
    let images = cx.manifest.artifacts.iter().filter(|artifact| artifact.key.kind() == Kind::Image);
    let mut images: Vec<String> = images.map(|artifact| artifact.name.clone()).collect();
    images.sort_unstable();
    images.dedup();
    let values = charts::values(cx, release, &Map::new());
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

/// With a cluster that this run makes a release goes by itself; in one that is there already, the revision before is restored.
fn undo(cx: &PlanCx<'_>, first: &Node<'_>, cluster: &ControlPlane) -> Undo {
    match Identity::of(cx.cluster, cx.facts).has_joined(cx.cluster, first.name(), first.facts) {
        true => Undo::RestoreBefore,
        false => Undo::WithParent { step: cluster.init.clone() },
    }
}
