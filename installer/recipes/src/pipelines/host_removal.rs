//! The removal of everything that kubexm has put on a host, using only its ledger: the part that `reset` and
//! `delete-node` share.
//!
//! The steps of the chain can be rolled back, since data is only moved aside; the purge deletes it.

mod host;
mod owned;
mod snapshots;

use kubexm_plan::facts::ForeignMount;
use kubexm_plan::op::Unit;
use kubexm_plan::{Reset, Step, StepId, Undo};
use kubexm_spec::one_line;

use crate::error::RecipeError;
pub use host::ResetHost;
pub(super) use owned::{Owned, of_host};
pub use snapshots::kept_snapshots;

const KUBELET: &str = "kubelet.service";
/// The step of a host that removes kubexm's files.
pub(super) const REVERT: &str = "reset.revert";

/// Refuses mounts of others in folders that the removal would delete, before anything is stopped.
pub(super) fn refuse_mounts<'a>(
    hosts: impl IntoIterator<Item = &'a (&'a ResetHost<'a>, Owned)>,
) -> Result<(), RecipeError> {
    let mut mounts = Vec::new();
    for (host, owned) in hosts {
        // They are sorted.
        let blocks = |mount: &&ForeignMount| owned.folders.binary_search(&mount.folder).is_ok();
        let here = host.facts.foreign_mounts.iter().filter(blocks);
        mounts.extend(here.map(|mount| one_line(&format!("{}: {mount}", host.name))));
    }
    if mounts.is_empty() { Ok(()) } else { Err(RecipeError::Mounted { mounts }) }
}

/// Refuses links of a host that are ports of the pod network's switch, which goes with the addresses that are on it.
pub(super) fn refuse_switched<'a>(
    hosts: impl IntoIterator<Item = &'a (&'a ResetHost<'a>, Owned)>,
) -> Result<(), RecipeError> {
    let of_host = |(host, owned): &'a (&'a ResetHost<'a>, Owned)| {
        let links = host.facts.own_switch.links.iter().filter(|_| owned.kubernetes);
        links.map(|link| one_line(&format!("{}: {link}", host.name)))
    };
    let links: Vec<String> = hosts.into_iter().flat_map(of_host).collect();
    if links.is_empty() { Ok(()) } else { Err(RecipeError::Switched { links }) }
}

/// Steps that can be rolled back, one after the other.
pub(super) fn chain(host: &str, owned: &Owned, after: &[StepId]) -> Vec<Step> {
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
        let step = Step::on(host, REVERT, "Restore earlier files, packages and settings").timeout_s(600);
        steps.push(step.ensure(Reset::Reverted { ops, before }).undo(Undo::RestoreBefore).build());
    }
    let mut before = after.to_vec();
    for step in &mut steps {
        step.after = std::mem::replace(&mut before, vec![step.id.clone()]);
    }
    steps
}

/// The last step of a host: it deletes what the chain has moved aside, the ledger and the agent.
pub(super) fn purge(host: &str, owned: &Owned, after: &[StepId]) -> Step {
    let title = "Delete the data, the ledger and the agent";
    let mut step = Step::on(host, "reset.forget", title).timeout_s(1800);
    for id in after {
        step = step.after(id);
    }
    step.ensure(Reset::Purge { paths: owned.folders.clone(), parents: owned.parents.clone() })
        .undo(Undo::Irreversible { why: "the data is deleted".to_owned() })
        .build()
}
