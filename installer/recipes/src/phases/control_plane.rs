//! The first control plane, and the pod network on it.

use kubexm_plan::{StepId, Undo};

use super::{ClusterHosts, Prepared};
use crate::balancer::kube_vip;
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::modules::{audit, backup, cluster_ca, control_plane, dns, kubeconfig, release, site_certificates};
use crate::network;

/// A control plane that hosts can join.
#[derive(Debug)]
pub struct ControlPlane {
    /// `kubeadm init`: rolling it back also removes every object in the cluster.
    pub init: StepId,
    /// The step after which the API server answers and has loaded its current files.
    pub answers: StepId,
    /// The steps after which nodes can be Ready: those that apply the pod network, if kubexm installs it.
    pub network: Vec<StepId>,
}

/// Starts the first control plane, and applies the pod network if kubexm installs it.
pub fn start<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    prepared: &Prepared<'a>,
) -> Result<ControlPlane, RecipeError> {
    let first = &site.first;
    let step = control_plane::init(draft, first)?;
    let init = step.id.clone();
    let mut chain = prepared.chain(first);
    chain.then(audit::step(draft, first)?);
    chain.then(cluster_ca::step(draft, first)?);
    chain.then(site_certificates::of_first(draft, first)?);
    if let Some(source) = draft.cx.from_backup {
        chain.then(backup::steps(draft, first, source)?);
        chain.wait(&prepared.tools);
    }
    chain.then([step]);
    let moved = kube_vip::steps(draft, first)?;
    let loaded = audit::loaded(draft.cx, first)?;
    // Others join by the address, which is away while kube-vip is given its rights.
    let answers = loaded.as_ref().or(moved.last()).map_or(&init, |step| &step.id).clone();
    chain.then(moved);
    // Before anything in the cluster is changed, so that the restart interrupts no other step.
    chain.then(loaded);
    chain.together(
        // Before the pod network, so before DNS starts
        [kubeconfig::step(first), control_plane::register(first, &init)].into_iter().chain(dns::corefile(
            draft,
            first,
            &site.nodes,
            &init,
        )?),
    );
    let of_network = network::of(draft.cx.cluster);
    if of_network.chart.is_some() {
        chain.wait(&prepared.helm);
    }
    let undo = if of_network.chart.is_some() || of_network.manifest.is_some() {
        release::undo(draft.cx, first, &init)
    } else {
        // It is removed with the cluster.
        Undo::WithParent { step: init.clone() }
    };
    // Its program, before anything waits for pods: those of a node that joined meanwhile, whose configuration names multus already, could not
    // start. Its own are of the host's network.
    let multus = release::undo(draft.cx, first, &init);
    chain.then(network::multus::step(draft, first, multus)?);
    chain.then(network::steps(draft, first, undo)?);
    chain.then(network::multus::config(draft, first)?);
    let network = draft.add(chain);
    let mut operator = Chain::default();
    operator.then([kubeconfig::of_operator(draft, first, &init)]);
    draft.add(operator);
    Ok(ControlPlane { init, answers, network })
}
