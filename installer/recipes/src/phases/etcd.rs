//! etcd as a service of its own, before the first control plane.

use kubexm_plan::StepId;

use super::{ClusterHosts, Prepared};
use crate::draft::{Chain, Draft, rolling};
use crate::error::RecipeError;
use crate::modules::{etcd, etcd_client};

/// Starts every member, all at the same time as one new cluster, and gives control planes their access. Members of a running
/// cluster are changed one after the other, so that the others keep a quorum. No steps where etcd is kubeadm's.
pub fn start_etcd<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    prepared: &mut Prepared<'a>,
) -> Result<(), RecipeError> {
    let members = etcd::members(draft.cx)?;
    let hosts: Vec<_> = site.nodes.iter().filter(|node| node.roles.etcd && !members.is_empty()).collect();
    let mut chains = Vec::new();
    for host in &hosts {
        let mut chain = prepared.after_store(host);
        // Members check each other's certificates from their first moment, and warn of peers whose time differs.
        chain.wait(prepared.clock(host));
        chain.then([etcd::serve(draft, host, &members, site.first.facts.joined)?]);
        chains.push(chain);
    }
    if site.first.facts.joined {
        rolling(&mut chains, 1);
    }
    let started: Vec<StepId> = chains.into_iter().flat_map(|chain| draft.add(chain)).collect();
    let mut healthy = Vec::new();
    for host in &hosts {
        let mut chain = Chain::after(started.iter().cloned());
        chain.then([etcd::formed(draft, host, &members)?]);
        healthy.extend(draft.add(chain));
    }
    for host in site.nodes.iter().filter(|node| node.roles.control_plane) {
        let Some(step) = etcd_client::step(draft, host, &members)? else { continue };
        let mut chain = prepared.after_store(host);
        chain.wait(&healthy);
        chain.then([step]);
        let steps = draft.add(chain);
        prepared.extend(host, steps);
    }
    Ok(())
}
