//! Joins the other nodes, once the first control plane answers.

use std::collections::BTreeMap;

use kubexm_plan::StepId;
use kubexm_spec::cluster::EtcdKind;

use super::{ClusterHosts, ControlPlane, Prepared};
use crate::balancer::{self, kube_vip};
use crate::context::{PlanContext, PlannedHost};
use crate::draft::{Chain, Draft, rolling};
use crate::error::RecipeError;
use crate::modules::{audit, join, kubeconfig, site_certificates};
use crate::network::multus;

/// Nodes that joined.
#[derive(Debug, Default)]
pub struct Joined<'a>(BTreeMap<&'a str, StepId>);

impl Joined<'_> {
    /// The step after which a node is registered with its labels and taints, a control plane's API server has loaded its
    /// current files, and a worker's own proxy serves; none for the first control plane.
    pub fn registered(&self, node: &PlannedHost<'_>) -> Option<&StepId> {
        self.0.get(node.name())
    }
}

/// Joins control planes one at a time where that matters ([`at_once`]). Workers join all at once, as soon as the first API server answers: they wait neither for further control planes (etcd works
/// while a member is added, and kubeadm retries during its pauses) nor for the pod network (their kubelet registers
/// meanwhile, and no pod can start there before the network's own pod runs).
pub fn join<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    prepared: &Prepared<'a>,
    cluster: &ControlPlane,
) -> Result<Joined<'a>, RecipeError> {
    let mut joined = Joined::default();
    let mut chains = Vec::new();
    for node in &site.others {
        chains.push(joined.chain(draft, site, prepared, cluster, node)?);
    }
    rolling(&mut chains, at_once(draft.cx, site));
    for node in site.workers() {
        chains.push(joined.chain(draft, site, prepared, cluster, node)?);
    }
    for chain in chains {
        draft.add(chain);
    }
    Ok(joined)
}

/// How many control planes join at a time. One with kubeadm's etcd: two members that are added at once could cost the quorum. One where some
/// run already: audit files with which an API server does not start, and what else a run may change of them, reach one after the other.
/// Otherwise a join changes nothing that another one needs.
fn at_once(cx: &PlanContext<'_>, site: &ClusterHosts<'_>) -> usize {
    let has_members = cx.cluster.etcd.kind == EtcdKind::Kubeadm;
    let some_run = site.others.iter().any(|node| node.facts.joined);
    if has_members || some_run { 1 } else { site.others.len() }
}

impl<'a> Joined<'a> {
    fn chain(
        &mut self,
        draft: &mut Draft<'a>,
        site: &ClusterHosts<'a>,
        prepared: &Prepared<'a>,
        cluster: &ControlPlane,
        node: &PlannedHost<'a>,
    ) -> Result<Chain, RecipeError> {
        let first = &site.first;
        let mut chain = prepared.chain(node);
        chain.wait(std::slice::from_ref(&cluster.answers));
        let lookup = join::lookup(first, node);
        let register = join::register(first, node, &lookup.id);
        if node.roles.control_plane {
            chain.then(audit::step(draft, node)?);
        }
        let config = multus::config(draft, node)?;
        let (late, early) = config.map_or((None, None), |step| match multus::waits(draft.cx, node) {
            true => (Some(step), None),
            false => (None, Some(step)),
        });
        chain.then(early);
        chain.then(site_certificates::of_joining(draft, first, node)?);
        chain.then([lookup, join::step(draft, first, node)?]);
        let mut users = chain.fork();
        if node.roles.control_plane {
            users.then([kubeconfig::step(node)]);
            chain.then(kube_vip::steps(draft, node)?);
        }
        let mut done = register.id.clone();
        chain.then([register]);
        let loaded = if node.roles.control_plane { audit::loaded(draft.cx, node)? } else { None };
        if let Some(loaded) = loaded {
            done = loaded.id.clone();
            // An external load balancer may send requests of the first control plane's steps to this API server, so
            // it restarts only after them.
            chain.wait(&cluster.network);
            chain.then([loaded]);
        }
        if let Some(step) = late {
            chain.wait(&cluster.network);
            done = step.id.clone();
            chain.then([step]);
        }
        if let Some(step) = balancer::step(draft, &site.nodes, node)? {
            // The back-ends of a running proxy change only when the new one serves.
            let planes: Vec<StepId> = site.others.iter().filter_map(|plane| self.registered(plane)).cloned().collect();
            chain.wait(&planes);
            done = step.id.clone();
            chain.then([step]);
        }
        self.0.insert(&node.host.name, done);
        chain.merge_unawaited(users);
        Ok(chain)
    }
}
