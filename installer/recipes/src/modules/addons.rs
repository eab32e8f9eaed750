//! Add-ons: charts of the bundle, installed by its helm, and YAML that is applied as it is. Both on the first control plane, in
//! parallel, after the final check of the cluster, which they may need whole: its nodes, its DNS, its pod network.

use kubexm_manifests::ChartRelease;
use kubexm_plan::op::{HelmRelease, Manifests, Op, ReleaseInput};
use kubexm_plan::{Step, StepId, Undo};
use kubexm_spec::{ArtifactKey, Kind};
use serde_json::Map;

use crate::charts;
use crate::context::{Node, PlanCx};
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::identity::Identity;
use crate::phases::{ControlPlane, Prepared, Site};

/// How long helm waits for the objects of a release, in seconds.
const WAIT: u64 = 300;

/// Adds a step for each. Returns the steps that later ones wait for.
pub fn run<'a>(
    draft: &mut Draft<'a>,
    site: &Site<'a>,
    prepared: &Prepared<'a>,
    cluster: &ControlPlane,
    checked: &[StepId],
) -> Result<Vec<StepId>, RecipeError> {
    let mut chain = Chain::after(checked.iter().cloned());
    let releases: Vec<ChartRelease> = charts::of_cluster(draft.cx);
    if releases.iter().any(is_chart) {
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
    let name = &release.name;
    let (op, title): (Op, String) = match is_chart(release) {
        true => (release_op(draft, first, release)?.into(), format!("Install {name} with helm")),
        false => (manifests(draft.cx, first, release)?.into(), format!("Apply the objects of {name}")),
    };
    Ok(Step::on(first.name(), &format!("addons.{name}"), &title)
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

fn is_chart(release: &ChartRelease) -> bool {
    matches!(release.key, ArtifactKey::Chart(_))
}

fn manifests(cx: &PlanCx<'_>, first: &Node<'_>, release: &ChartRelease) -> Result<Manifests, RecipeError> {
    let blob = cx.artifact(&release.key, first.platform)?.digest;
    Ok(Manifests { name: release.name.clone(), namespace: release.namespace.clone(), blob, wait_s: WAIT })
}

/// With a cluster that this run makes an add-on goes by itself; in one that is there already, what was before is restored.
fn undo(cx: &PlanCx<'_>, first: &Node<'_>, cluster: &ControlPlane) -> Undo {
    match Identity::of(cx.cluster, cx.facts).has_joined(cx.cluster, first.name(), first.facts) {
        true => Undo::RestoreBefore,
        false => Undo::WithParent { step: cluster.init.clone() },
    }
}
