//! etcd as a service of its own, before the first control plane.

use kubexm_plan::StepId;

use super::{ClusterHosts, ControlPlane, Joined, Prepared};
use crate::context::PlannedHost;
use crate::draft::{Chain, Draft, rolling};
use crate::error::RecipeError;
use crate::modules::etcd::{self, Among, Member};
use crate::modules::{etcd_client, etcd_listed};

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
    let (new, hosts): (Vec<&PlannedHost<'a>>, Vec<_>) =
        site.nodes.iter().filter(has_role).partition(|node| runs && lacks_member(node));
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

const fn lacks_member(node: &PlannedHost<'_>) -> bool {
    node.facts.etcd_formed.is_none()
}

/// The list of a cluster that runs, whose members are all there. A run that has added some may have been cut off before API servers and
/// kubeadm got it, and nobody may know that run any more: each `create` looks at every place that has it.
#[derive(Debug)]
pub struct MemberList {
    members: Vec<Member>,
    /// Whether members are known to be missing in it: a join, too, completes it.
    lacks: bool,
    /// The step after which kubeadm has it.
    known: Vec<StepId>,
}

/// Writes the list into kubeadm's configuration of the cluster, before control planes join with it. None of a cluster that is new, whose etcd
/// is not kubexm's, or which members join with this plan.
pub fn list_members<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    prepared: &mut Prepared<'a>,
    cluster: &ControlPlane,
) -> Result<Option<MemberList>, RecipeError> {
    let members = etcd::members(draft.cx)?;
    let joins = site.nodes.iter().any(|node| node.roles.etcd && lacks_member(node));
    if members.is_empty() || !site.first.facts.joined || joins {
        return Ok(None);
    }
    let lacks = !etcd_listed::unlisted(draft.cx)?.is_empty();
    let mut step = etcd_client::known_to_kubeadm((&site.first, site.first.name()), &members);
    if lacks {
        step = draft.depends_on_all(step);
    }
    // Once kubelet and the API server are as planned: it is asked.
    let mut chain = Chain::after([cluster.answers.clone()]);
    chain.then([step]);
    let known = draft.add(chain);
    site.others.iter().for_each(|node| prepared.extend(node, known.clone()));
    Ok(Some(MemberList { members, lacks, known }))
}

impl MemberList {
    /// Lets the API servers that run ask these members, one after the other, each once its node is as planned. Returns the last step.
    pub fn ask<'a>(self, draft: &mut Draft<'a>, site: &ClusterHosts<'a>, joined: &Joined<'a>) -> Vec<StepId> {
        let mut chain = Chain::after(self.known);
        for plane in [&site.first].into_iter().chain(&site.others).filter(|plane| plane.facts.joined) {
            chain.wait(joined.registered(plane).map(std::slice::from_ref).unwrap_or_default());
            let mut step = etcd_client::asked(draft.cx, (plane, plane.name()), &self.members);
            if self.lacks {
                step = draft.depends_on_all(step);
            }
            chain.then([step]);
        }
        draft.add(chain)
    }
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
