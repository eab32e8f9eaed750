//! The load balancer on hosts of its own, before the first control plane.

use kubexm_plan::StepId;

use super::{ClusterHosts, Prepared};
use crate::balancer::{external, one_holder};
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;

/// Starts keepalived and its proxy on every host of the role. All nodes wait for them before kubeadm runs: it may ask the API
/// server by that address while it makes the first control plane, and workers join with it. No steps where kubexm runs none.
pub fn start_balancers<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    prepared: &mut Prepared<'a>,
) -> Result<(), RecipeError> {
    let mut serve: Vec<StepId> = Vec::new();
    for host in &site.nodes {
        let Some(step) = external::step(draft, &site.nodes, host)? else { continue };
        let mut chain = prepared.after_store(host);
        chain.then([step]);
        serve.extend(draft.add(chain));
    }
    let mut chain = Chain::after(serve.iter().cloned());
    chain.then(one_holder::at_start(draft.cx, &site.nodes));
    let serve = draft.add(chain);
    for node in site.members() {
        prepared.extend(&node, serve.clone());
    }
    Ok(())
}
