//! `reset`: removes a cluster, using only the ledgers that its nodes have kept.
//!
//! Needs no bundle and no data of the controller that made the cluster. Until the last step of each host everything can
//! be rolled back and the cluster runs again; the last steps run after all hosts have done the others.

mod found;
mod host;

use std::collections::BTreeMap;

use kubexm_plan::facts::ForeignMount;
use kubexm_plan::op::Unit;
use kubexm_plan::{Pipeline, Plan, PlanHost, Reset, Step, StepId, Undo};

use crate::error::RecipeError;
use found::Ours;
pub use host::{ResetCx, ResetHost};

const KUBELET: &str = "kubelet.service";

/// Order of hosts: hosts that others need come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Worker,
    ControlPlane,
    FirstControlPlane,
    Registry,
}

/// The plan that removes a cluster.
pub fn reset(cx: &ResetCx<'_>) -> Result<Plan, RecipeError> {
    let mut turns: BTreeMap<Turn, Vec<(&ResetHost<'_>, Ours)>> = BTreeMap::new();
    let mut mounts = Vec::new();
    let first = cx.hosts.iter().find(|host| host.control_plane).map(|host| host.name);
    for host in &cx.hosts {
        let ours = found::ours(cx.cluster, host)?;
        let in_the_way = |mount: &&ForeignMount| ours.folders.contains(&mount.folder);
        let here = host.facts.foreign_mounts.iter().filter(in_the_way);
        mounts.extend(here.map(|mount| format!("{}: {mount}", host.name)));
        if !host.is_clean() {
            turns.entry(turn(host, first)).or_default().push((host, ours));
        }
    }
    if !mounts.is_empty() {
        return Err(RecipeError::Mounted { mounts });
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut last: Vec<StepId> = Vec::new();
    for group in turns.values() {
        let mut ends = Vec::new();
        for (host, ours) in group {
            let chain = chain(host.name, ours, &last);
            ends.extend(chain.last().map(|step| step.id.clone()));
            steps.extend(chain);
        }
        // A group of hosts with nothing left to stop does not delay other groups.
        if !ends.is_empty() {
            last = ends;
        }
    }
    for (host, ours) in turns.values().flatten() {
        steps.push(forget(host.name, ours, &last));
    }
    Ok(Plan {
        schema: kubexm_plan::SCHEMA,
        pipeline: Pipeline::Reset,
        cluster_name: cx.cluster.to_owned(),
        cluster_id: cx.cluster_id,
        cluster: cx.cluster_digest,
        bundle: None,
        hosts: cx.hosts.iter().map(plan_host).collect(),
        fleet_concurrency: 16,
        host_concurrency: 4,
        slots: BTreeMap::new(),
        texts: BTreeMap::new(),
        steps,
    })
}

fn turn(host: &ResetHost<'_>, first: Option<&str>) -> Turn {
    match host {
        ResetHost { registry: true, .. } => Turn::Registry,
        ResetHost { control_plane: true, name, .. } if first == Some(name) => Turn::FirstControlPlane,
        ResetHost { control_plane: true, .. } => Turn::ControlPlane,
        _ => Turn::Worker,
    }
}

/// Steps that can be rolled back, one after the other.
fn chain(host: &str, ours: &Ours, after: &[StepId]) -> Vec<Step> {
    let mut stop = Step::on(host, "reset.stop", "Stop Kubernetes, its pods and the runtime").timeout_s(600);
    // The files it was started with, so that it counts as running with them when it is started again.
    let stopped = |unit: &&Unit| Unit { enabled: false, running: Some(false), ..(*unit).clone() };
    let (kubelet, others): (Vec<&Unit>, Vec<&Unit>) = ours.units.iter().partition(|unit| unit.name == KUBELET);
    stop = stop.ensure_all(kubelet.iter().map(stopped));
    // After kubelet, which would start them again, and before containerd, which cleans up after them.
    if ours.kubernetes {
        stop = stop.ensure(Reset::PodsStopped);
    }
    stop = stop.ensure_all(others.iter().map(stopped));
    let mut steps = Vec::new();
    if ours.kubernetes || !ours.units.is_empty() {
        steps.push(stop.undo(Undo::RestoreBefore).build());
    }
    if !ours.folders.is_empty() {
        let step = Step::on(host, "reset.aside", "Unmount volumes and set the data aside").timeout_s(600);
        steps.push(
            step.ensure(Reset::MoveStateAside {
                paths: ours.folders.clone(),
                spared: ours.spared.clone(),
                moved: ours.moved.clone(),
            })
            .undo(Undo::RestoreBefore)
            .build(),
        );
    }
    if ours.kubernetes {
        let step = Step::on(host, "reset.network", "Clear links, rules and sets of the cluster").timeout_s(300);
        steps.push(step.ensure(Reset::NetworkCleared).undo(Undo::RestoreBefore).build());
    }
    if !ours.ops.is_empty() {
        let (ops, before) = (ours.ops.clone(), ours.before.clone());
        let step = Step::on(host, "reset.revert", "Restore what was there before").timeout_s(600);
        steps.push(step.ensure(Reset::Reverted { ops, before }).undo(Undo::RestoreBefore).build());
    }
    let mut before = after.to_vec();
    for step in &mut steps {
        step.after = std::mem::replace(&mut before, vec![step.id.clone()]);
    }
    steps
}

fn forget(host: &str, ours: &Ours, after: &[StepId]) -> Step {
    let title = "Delete the data, the ledger and the agent";
    let mut step = Step::on(host, "reset.forget", title).timeout_s(1800);
    for id in after {
        step = step.after(id);
    }
    step.ensure(Reset::Purge { paths: ours.folders.clone(), parents: ours.parents.clone() })
        .undo(Undo::Irreversible { why: "the data is deleted".to_owned() })
        .build()
}

fn plan_host(host: &ResetHost<'_>) -> PlanHost {
    let roles = [("control-plane", host.control_plane), ("worker", host.worker), ("registry", host.registry)];
    PlanHost {
        name: host.name.to_owned(),
        roles: roles.into_iter().filter(|(_, has)| *has).map(|(role, _)| role.to_owned()).collect(),
        optional: false,
    }
}
