//! `reset`: removes a cluster, using only the ledgers that its nodes have kept.
//!
//! Needs no bundle and no data of the controller that created the cluster. The last step of each host deletes its data
//! and runs after all hosts have finished the other steps; until then the reset can be rolled back, and the cluster
//! runs again.

mod host;
mod owned;

use std::collections::BTreeMap;

use kubexm_plan::facts::ForeignMount;
use kubexm_plan::op::Unit;
use kubexm_plan::{Pipeline, Plan, PlanHost, Reset, Step, StepId, Undo};

use crate::error::RecipeError;
pub use host::{ResetCx, ResetHost};
use owned::Owned;

const KUBELET: &str = "kubelet.service";

/// The order in which hosts are reset: hosts that others need come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Position {
    Worker,
    ControlPlane,
    FirstControlPlane,
    Registry,
}

/// The plan that removes a cluster.
pub fn reset(cx: &ResetCx<'_>) -> Result<Plan, RecipeError> {
    let mut groups: BTreeMap<Position, Vec<(&ResetHost<'_>, Owned)>> = BTreeMap::new();
    let mut mounts = Vec::new();
    let first = cx.hosts.iter().find(|host| host.control_plane).map(|host| host.name);
    for host in &cx.hosts {
        let owned = owned::of_host(cx.cluster, host)?;
        let blocks = |mount: &&ForeignMount| owned.folders.contains(&mount.folder);
        let here = host.facts.foreign_mounts.iter().filter(blocks);
        mounts.extend(here.map(|mount| format!("{}: {mount}", host.name)));
        if !host.is_clean() {
            groups.entry(position(host, first)).or_default().push((host, owned));
        }
    }
    if !mounts.is_empty() {
        return Err(RecipeError::Mounted { mounts });
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut last: Vec<StepId> = Vec::new();
    for group in groups.values() {
        let mut ends = Vec::new();
        for (host, owned) in group {
            let chain = chain(host.name, owned, &last);
            ends.extend(chain.last().map(|step| step.id.clone()));
            steps.extend(chain);
        }
        // A group of hosts with nothing left to stop does not delay other groups.
        if !ends.is_empty() {
            last = ends;
        }
    }
    for (host, owned) in groups.values().flatten() {
        steps.push(purge(host.name, owned, &last));
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

fn position(host: &ResetHost<'_>, first: Option<&str>) -> Position {
    match host {
        ResetHost { registry: true, .. } => Position::Registry,
        ResetHost { control_plane: true, name, .. } if first == Some(name) => Position::FirstControlPlane,
        ResetHost { control_plane: true, .. } => Position::ControlPlane,
        _ => Position::Worker,
    }
}

/// Steps that can be rolled back, one after the other.
fn chain(host: &str, owned: &Owned, after: &[StepId]) -> Vec<Step> {
    let mut stop = Step::on(host, "reset.stop", "Stop Kubernetes, its pods and the runtime").timeout_s(600);
    // `loaded` stays, so that the unit counts as running with these files when a rollback starts it again.
    let stopped = |unit: &&Unit| Unit { enabled: false, running: Some(false), ..(*unit).clone() };
    let (kubelet, others): (Vec<&Unit>, Vec<&Unit>) = owned.units.iter().partition(|unit| unit.name == KUBELET);
    stop = stop.ensure_all(kubelet.iter().map(stopped));
    // After kubelet, which would start them again, and before containerd, which cleans up after them.
    if owned.kubernetes {
        stop = stop.ensure(Reset::PodsStopped);
    }
    stop = stop.ensure_all(others.iter().map(stopped));
    let mut steps = Vec::new();
    if owned.kubernetes || !owned.units.is_empty() {
        steps.push(stop.undo(Undo::RestoreBefore).build());
    }
    if !owned.folders.is_empty() {
        let step = Step::on(host, "reset.aside", "Unmount volumes and move the data aside").timeout_s(600);
        steps.push(
            step.ensure(Reset::MoveStateAside {
                paths: owned.folders.clone(),
                spared: owned.spared.clone(),
                moved: owned.moved.clone(),
            })
            .undo(Undo::RestoreBefore)
            .build(),
        );
    }
    if owned.kubernetes {
        let step =
            Step::on(host, "reset.network", "Remove the cluster's network interfaces, firewall rules and ipsets")
                .timeout_s(300);
        steps.push(step.ensure(Reset::NetworkCleared).undo(Undo::RestoreBefore).build());
    }
    if !owned.ops.is_empty() {
        let (ops, before) = (owned.ops.clone(), owned.before.clone());
        let step = Step::on(host, "reset.revert", "Restore earlier files, packages and settings").timeout_s(600);
        steps.push(step.ensure(Reset::Reverted { ops, before }).undo(Undo::RestoreBefore).build());
    }
    let mut before = after.to_vec();
    for step in &mut steps {
        step.after = std::mem::replace(&mut before, vec![step.id.clone()]);
    }
    steps
}

fn purge(host: &str, owned: &Owned, after: &[StepId]) -> Step {
    let title = "Delete the data, the ledger and the agent";
    let mut step = Step::on(host, "reset.forget", title).timeout_s(1800);
    for id in after {
        step = step.after(id);
    }
    step.ensure(Reset::Purge { paths: owned.folders.clone(), parents: owned.parents.clone() })
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
