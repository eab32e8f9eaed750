//! Clocks, in parallel with the preparation of the hosts and before kubeadm; time servers first.

use super::{ClusterHosts, Prepared};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::time;

/// Adds the steps that set the clocks; a host is prepared only when its clock is synchronised.
pub fn set_clocks<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    prepared: &mut Prepared<'a>,
) -> Result<(), RecipeError> {
    let mut hosts = std::mem::take(&mut prepared.packaged);
    hosts.sort_by_key(|host| !host.node.serves_time);
    let mut serving = Vec::new();
    for host in hosts {
        let Some(step) = time::step(draft, &host.node, &site.nodes, host.to_install.as_ref())? else { continue };
        let mut chain = host.chain;
        if !host.node.serves_time {
            chain.wait(&serving);
        }
        chain.then([step]);
        let set = draft.add(chain);
        prepared.extend(&host.node, set.clone());
        prepared.clocks.insert(&host.node.host.name, set.clone());
        if host.node.serves_time {
            serving.extend(set);
        }
    }
    Ok(())
}
