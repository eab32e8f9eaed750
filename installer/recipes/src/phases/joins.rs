//! Joins the other nodes, once the first control plane answers.

use std::collections::BTreeMap;

use kubexm_plan::StepId;

use super::{ControlPlane, Prepared, Site};
use crate::context::Node;
use crate::draft::{Chain, Draft, rolling};
use crate::error::RecipeError;
use crate::modules::{join, kubeconfig};

/// Nodes that joined.
#[derive(Debug, Default)]
pub struct Joined<'a>(BTreeMap<&'a str, StepId>);

impl Joined<'_> {
    /// The step after which a node is registered with its labels and taints; none for the first control plane.
    pub fn registered(&self, node: &Node<'_>) -> Option<&StepId> {
        self.0.get(node.name())
    }
}

/// Joins control planes one at a time: each adds an etcd member, and two at once could cost etcd its quorum. Workers
/// join all at once, as soon as the first API server answers: they wait neither for further control planes (etcd works
/// while a member is added, and kubeadm retries during its pauses) nor for the pod network (their kubelet registers
/// meanwhile, and no pod can start there before the network's own pod runs).
pub fn join<'a>(
    draft: &mut Draft<'a>,
    site: &Site<'a>,
    prepared: &Prepared<'a>,
    cluster: &ControlPlane,
) -> Result<Joined<'a>, RecipeError> {
    let mut joined = Joined::default();
    let mut chains = Vec::new();
    for node in &site.others {
        chains.push(joined.chain(draft, site, prepared, cluster, node)?);
    }
    rolling(&mut chains, 1);
    for node in site.workers() {
        chains.push(joined.chain(draft, site, prepared, cluster, node)?);
    }
    for chain in chains {
        draft.add(chain);
    }
    Ok(joined)
}

impl<'a> Joined<'a> {
    fn chain(
        &mut self,
        draft: &mut Draft<'a>,
        site: &Site<'a>,
        prepared: &Prepared<'a>,
        cluster: &ControlPlane,
        node: &Node<'a>,
    ) -> Result<Chain, RecipeError> {
        let first = &site.first;
        let mut chain = prepared.chain(node);
        chain.wait(std::slice::from_ref(&cluster.init));
        let awaited = join::awaited(first, node);
        let register = join::register(first, node, &awaited.id);
        chain.then([awaited, join::step(draft, first, node)?]);
        let mut users = chain.fork();
        if node.roles.control_plane {
            users.then([kubeconfig::step(node)]);
        }
        self.0.insert(&node.host.name, register.id.clone());
        chain.then([register]);
        chain.aside(users);
        Ok(chain)
    }
}
