//! `create`: from reachable hosts to a cluster whose nodes, pods and pod network were checked.

use std::collections::BTreeMap;

use kubexm_plan::{ClusterFacts, Facts, Pipeline, Plan, StepId, Undo};
use kubexm_spec::cluster::{Cluster, Host};

use crate::context::PlanContext;
use crate::draft::{Chain, Draft, Drafted};
use crate::error::RecipeError;
use crate::identity::Identity;
use crate::modules::removed_addons::{self, RemovedAddon};
use crate::modules::{addons, check, etcd_listed, record, release, scripts, timers};
use crate::network::nodelocaldns;
use crate::phases::{
    ClusterHosts, ControlPlane, join, list_members, prepare, set_clocks, start, start_balancers, start_etcd,
};
use crate::runtime::virtual_machines;
use crate::{bundle, unsupported};

/// The plan that creates a cluster, or completes it: every step checks before it changes anything.
pub fn create(cx: &PlanContext<'_>) -> Result<Plan, RecipeError> {
    Ok(plan_cluster(cx, Pipeline::Create, &[])?.plan)
}

/// The same for a cluster that runs, if it does: add-ons that cluster.yaml no longer has are removed. Returns what the operator is
/// warned of, too.
pub(super) fn create_again(cx: &PlanContext<'_>, running: &ClusterFacts) -> Result<(Plan, Vec<String>), RecipeError> {
    etcd_listed::check(cx, running)?;
    virtual_machines::are_gone(cx.cluster, running.applied.as_ref())?;
    let removed = removed_addons::of_create(cx.cluster, running.applied.as_ref());
    let plan = plan_cluster(cx, Pipeline::Create, &removed)?.plan;
    let mut warnings = removed_addons::warnings(&removed, running.applied.as_ref());
    if finds_a_cluster(cx.cluster, cx.facts) && running.applied.is_none() {
        warnings.push(removed_addons::UNKNOWN.to_owned());
    }
    Ok((plan, warnings))
}

/// Whether there is a cluster already, whose pod network and add-ons must be known.
pub(super) fn finds_a_cluster(cluster: &Cluster, facts: &BTreeMap<String, Facts>) -> bool {
    let identity = Identity::of(cluster, facts);
    let joined =
        |host: &Host| facts.get(&host.name).is_some_and(|facts| identity.has_joined(cluster, &host.name, facts));
    cluster.first_control_plane().is_some_and(joined)
}

/// The plan of the whole cluster, for this pipeline.
pub(super) fn plan_cluster(
    cx: &PlanContext<'_>,
    pipeline: Pipeline,
    removed: &[RemovedAddon],
) -> Result<Drafted, RecipeError> {
    unsupported::refuse(cx.cluster)?;
    compose(cx, pipeline, removed)
}

fn compose(cx: &PlanContext<'_>, pipeline: Pipeline, removed: &[RemovedAddon]) -> Result<Drafted, RecipeError> {
    bundle::check(cx)?;
    let site = ClusterHosts::of(cx)?;
    let mut draft = Draft::new(cx, pipeline, &site.nodes);
    let mut prepared = prepare(&mut draft, &site)?;
    set_clocks(&mut draft, &site, &mut prepared)?;
    start_etcd(&mut draft, &site, &mut prepared)?;
    start_balancers(&mut draft, &site, &mut prepared)?;
    let cluster = start(&mut draft, &site, &prepared)?;
    let members = list_members(&mut draft, &site, &mut prepared, &cluster)?;
    let joined = join(&mut draft, &site, &prepared, &cluster)?;
    let asked = members.map_or_else(Vec::new, |members| members.ask(&mut draft, &site, &joined));
    let ready: Vec<StepId> = cluster.network.iter().cloned().chain(asked).collect();
    let checked = check::run(&mut draft, &site, &ready, |node| joined.registered(node))?;
    let checked = cache_dns(&mut draft, &site, &cluster, checked)?;
    let undo = release::undo(cx, &site.first, &cluster.init);
    let mut installed = addons::run(&mut draft, &site, (&prepared.helm, &undo), (&checked, removed))?;
    installed.extend(timers::run(&mut draft, &site, &checked)?);
    record::finish(&mut draft, &site.first, Undo::WithParent { step: cluster.init }, &installed)?;
    scripts::finish(&mut draft, &site.nodes, &installed)?;
    Ok(draft.finish())
}

/// The DNS cache of the nodes, once all of them are there, and before add-ons. Returns the steps that those wait for.
fn cache_dns<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    cluster: &ControlPlane,
    checked: Vec<StepId>,
) -> Result<Vec<StepId>, RecipeError> {
    let undo = release::undo(draft.cx, &site.first, &cluster.init);
    let mut chain = Chain::after(checked);
    chain.then(nodelocaldns::step(draft, &site.first, undo)?);
    Ok(draft.add(chain))
}
