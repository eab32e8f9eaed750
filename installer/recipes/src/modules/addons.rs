//! Add-ons: charts of the bundle, installed by its helm, and YAML that is applied as it is. Both on the first control plane, after the
//! final check of the cluster, which they may need whole: its nodes, its DNS, its pod network. What makes volumes comes first. They run in
//! parallel, but one that names others (`after`) waits for those. What cluster.yaml no longer has is removed before.

use kubexm_manifests::ChartRelease;
use kubexm_plan::op::{HelmRelease, Manifests, Op};
use kubexm_plan::{Step, StepId, Undo};
use kubexm_spec::ArtifactKey;
use kubexm_spec::cluster::Addon;

use crate::charts;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::modules::removed_addons::{self, RemovedAddon};
use crate::modules::{addon_secrets, release, storage};
use crate::phases::ClusterHosts;
use crate::runtime::virtual_machines;

/// Adds a step for each; charts wait for the bundle's helm. Returns the steps that later ones wait for.
pub fn run<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    (helm, undo): (&[StepId], &Undo),
    (checked, removed): (&[StepId], &[RemovedAddon]),
) -> Result<Vec<StepId>, RecipeError> {
    let mut chain = Chain::after(checked.iter().cloned());
    let addons: Vec<ChartRelease> = charts::addons(draft.cx);
    if addons.iter().any(is_chart) || removed.iter().any(RemovedAddon::needs_helm) {
        chain.wait(helm);
    }
    removed_addons::before(draft, site.first.name(), removed, &mut chain);
    let (of_storage, addons): (Vec<_>, Vec<_>) =
        addons.iter().partition(|release| storage::is_of(draft.cx.cluster, release));
    let volumes: Vec<Step> = of_storage
        .into_iter()
        .map(|release| storage::step(draft, &site.first, release, undo))
        .collect::<Result<_, _>>()?;
    chain.together(volumes);
    let mut steps = Vec::new();
    for addon in addons {
        let mut step = step(draft, &site.first, addon, undo)?;
        if let Some(secrets) = addon_secrets::step(draft, &site.first, addon, undo)? {
            step.after.push(secrets.id.clone());
            steps.push(secrets);
        }
        step.after.extend(earlier(draft.cx, addon).map(|name| id(&site.first, name)));
        steps.push(step);
    }
    chain.together(steps);
    removed_addons::after(draft, site.first.name(), removed, &mut chain);
    Ok(draft.add(chain))
}

/// The add-ons that it waits for.
fn earlier<'a>(cx: &PlanContext<'a>, addon: &ChartRelease) -> impl Iterator<Item = &'a str> {
    let of = cx.cluster.addons.iter().find(|of| of.name == addon.name);
    of.into_iter().flat_map(|of| &of.after).map(String::as_str)
}

fn id(first: &PlannedHost<'_>, name: &str) -> StepId {
    StepId(format!("{}/addons.{name}", first.name()))
}

fn step(
    draft: &mut Draft<'_>,
    first: &PlannedHost<'_>,
    addon: &ChartRelease,
    undo: &Undo,
) -> Result<Step, RecipeError> {
    let name = &addon.name;
    let wait = wait_of(draft.cx, addon);
    let (op, title): (Op, String) = match is_chart(addon) {
        true => {
            let site = charts::site(draft.cx, addon)?;
            let op = HelmRelease { wait_s: wait, ..release::op(draft, first, addon, &site)? };
            (op.into(), format!("Install {name} with helm"))
        }
        false => (manifests(draft.cx, first, addon)?.into(), format!("Apply the objects of {name}")),
    };
    let step = Step::on(first.name(), &format!("addons.{name}"), &title)
        .timeout_s(release::timeout(wait))
        .ensure(op)
        .undo(undo.clone())
        .build();
    // Values of the site depend on all hosts.
    Ok(if addon.placeholders().is_empty() { step } else { draft.depends_on_all(step) })
}

/// How long helm waits for its objects, in seconds.
fn wait_of(cx: &PlanContext<'_>, release: &ChartRelease) -> u64 {
    let is_slow = |addon: &&Addon| addon.name == release.name && virtual_machines::is_it(addon);
    if cx.cluster.addons.iter().any(|addon| is_slow(&addon)) { virtual_machines::WAIT } else { release::WAIT }
}

pub fn is_chart(addon: &ChartRelease) -> bool {
    matches!(addon.key, ArtifactKey::Chart(_))
}

fn manifests(cx: &PlanContext<'_>, first: &PlannedHost<'_>, addon: &ChartRelease) -> Result<Manifests, RecipeError> {
    let blob = cx.artifact(&addon.key, first.platform)?.digest;
    let (name, namespace) = (addon.name.clone(), addon.namespace.clone());
    Ok(Manifests { name, namespace, blob, in_plan: false, slots: Vec::new(), wait_s: release::WAIT })
}
