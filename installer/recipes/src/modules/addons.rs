//! Add-ons: charts of the bundle, installed by its helm, and YAML that is applied as it is. Both on the first control plane, in
//! parallel, after the final check of the cluster, which they may need whole: its nodes, its DNS, its pod network.

use kubexm_manifests::ChartRelease;
use kubexm_plan::op::{Manifests, Op};
use kubexm_plan::{Step, StepId};
use kubexm_spec::ArtifactKey;

use crate::charts;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::modules::release;
use crate::phases::{ClusterHosts, ControlPlane, Prepared};

/// Adds a step for each. Returns the steps that later ones wait for.
pub fn run<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    prepared: &Prepared<'a>,
    cluster: &ControlPlane,
    checked: &[StepId],
) -> Result<Vec<StepId>, RecipeError> {
    let mut chain = Chain::after(checked.iter().cloned());
    let addons: Vec<ChartRelease> = charts::addons(draft.cx);
    if addons.iter().any(is_chart) {
        chain.wait(prepared.helm.as_slice());
    }
    let steps: Vec<Step> =
        addons.iter().map(|addon| step(draft, &site.first, addon, cluster)).collect::<Result<_, _>>()?;
    chain.together(steps);
    Ok(draft.add(chain))
}

fn step(
    draft: &mut Draft<'_>,
    first: &PlannedHost<'_>,
    addon: &ChartRelease,
    cluster: &ControlPlane,
) -> Result<Step, RecipeError> {
    let name = &addon.name;
    let (op, title): (Op, String) = match is_chart(addon) {
        true => {
            let site = charts::site(draft.cx, addon)?;
            (release::op(draft, first, addon, &site)?.into(), format!("Install {name} with helm"))
        }
        false => (manifests(draft.cx, first, addon)?.into(), format!("Apply the objects of {name}")),
    };
    let step = Step::on(first.name(), &format!("addons.{name}"), &title)
        .timeout_s(release::TIMEOUT)
        .ensure(op)
        .undo(release::undo(draft.cx, first, &cluster.init))
        .build();
    // Values of the site depend on all hosts.
    Ok(if addon.placeholders().is_empty() { step } else { draft.depends_on_all(step) })
}

fn is_chart(addon: &ChartRelease) -> bool {
    matches!(addon.key, ArtifactKey::Chart(_))
}

fn manifests(cx: &PlanContext<'_>, first: &PlannedHost<'_>, addon: &ChartRelease) -> Result<Manifests, RecipeError> {
    let blob = cx.artifact(&addon.key, first.platform)?.digest;
    let (name, namespace) = (addon.name.clone(), addon.namespace.clone());
    Ok(Manifests { name, namespace, blob, in_plan: false, wait_s: release::WAIT })
}
