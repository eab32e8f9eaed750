//! etcd as a service of its own, before the first control plane.

use kubexm_plan::StepId;

use super::{ClusterHosts, Prepared};
use crate::context::PlannedHost;
use crate::draft::{Chain, Draft, rolling};
use crate::error::RecipeError;
use crate::modules::etcd::{self, Among, Member};
use crate::modules::etcd_client;

/// Starts every member, all at the same time as one new cluster, and gives control planes their access. Members of a running
/// cluster are changed one after the other, so that the others keep a quorum; those that are new join them. No steps where etcd is kubeadm's.
pub fn start_etcd<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    prepared: &mut Prepared<'a>,
) -> Result<(), RecipeError> {
    let all = etcd::members(draft.cx)?;
    let runs = site.first.facts.joined;
    let has_role = |node: &&PlannedHost<'a>| node.roles.etcd && !all.is_empty();
    let is_new = |node: &PlannedHost<'a>| runs && node.facts.etcd_formed.is_none();
    let (new, hosts): (Vec<&PlannedHost<'a>>, Vec<_>) =
        site.nodes.iter().filter(has_role).partition(|node| is_new(node));
    let members: Vec<Member> =
        all.iter().filter(|member| new.iter().all(|node| node.name() != member.name)).cloned().collect();
    let among = if runs { Among::Running } else { Among::New };
    let mut chains = Vec::new();
    for host in &hosts {
        let mut chain = prepared.after_store(host);
        // Members check each other's certificates from their first moment, and warn of peers whose time differs.
        chain.wait(prepared.clock(host));
        chain.then([etcd::serve(draft, host, &members, among)?]);
        chains.push(chain);
    }
    if runs {
        rolling(&mut chains, 1);
    }
    let started: Vec<StepId> = chains.into_iter().flat_map(|chain| draft.add(chain)).collect();
    let mut healthy = Vec::new();
    for host in &hosts {
        let mut chain = Chain::after(started.iter().cloned());
        chain.then([etcd::formed(draft, host, &members, among)?]);
        healthy.extend(draft.add(chain));
    }
    if !new.is_empty() {
        let first = new.first().map_or(site.first.name(), |node| node.name());
        let mut chain = Chain::after(healthy);
        for host in &hosts {
            chain.then(etcd::keep_started(draft, host, &members, first));
        }
        let kept = draft.add(chain);
        healthy = join_members(draft, site, prepared, (members, &new), kept)?;
        // An API server is started anew meanwhile, which joins ask.
        site.nodes.iter().for_each(|node| prepared.extend(node, healthy.clone()));
    }
    for host in site.nodes.iter().filter(|node| node.roles.control_plane) {
        let Some(step) = etcd_client::step(draft, host, &all)? else { continue };
        let mut chain = prepared.after_store(host);
        chain.wait(&healthy);
        chain.then([step]);
        let steps = draft.add(chain);
        prepared.extend(host, steps);
    }
    Ok(())
}

/// Adds the members on new hosts to those that run, one after the other; then API servers and kubeadm get the list. Returns the last steps.
fn join_members<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    prepared: &Prepared<'a>,
    (mut members, new): (Vec<Member>, &[&PlannedHost<'a>]),
    after: Vec<StepId>,
) -> Result<Vec<StepId>, RecipeError> {
    let (first, mut last) = (&site.first, after);
    for host in new {
        let member = Member::at(host.name(), host.ip);
        members.push(member.clone());
        let mut chain = prepared.after_store(host);
        chain.wait(prepared.clock(host));
        chain.wait(&last);
        chain.then([etcd::add(first, &member)]);
        chain.then([etcd::serve(draft, host, &members, Among::Joined)?]);
        chain.then([etcd::promote(first, &member)]);
        chain.then([etcd::formed(draft, host, &members, Among::Joined)?]);
        last = draft.add(chain);
    }
    let all = etcd::members(draft.cx)?;
    let mut chain = Chain::after(last);
    let domain = new.last().map_or(first.name(), |host| host.name());
    chain.then([etcd_client::known_to_kubeadm((first, domain), &all)]);
    for plane in site.nodes.iter().filter(|node| node.roles.control_plane && node.facts.joined) {
        chain.then([etcd_client::asked(draft.cx, (plane, domain), &all)]);
    }
    Ok(draft.add(chain))
}
