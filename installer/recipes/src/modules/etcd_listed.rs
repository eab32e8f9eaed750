//! Members of an etcd of kubexm's that run, and are not in the list yet that API servers and kubeadm have: a run that has added them was cut off
//! before that. Where nobody can continue that run, the next `create` or `add-node` gives them the list.

use std::collections::BTreeSet;

use kubexm_plan::ClusterFacts;
use kubexm_plan::cluster_facts::EtcdMember;

use crate::context::PlanContext;
use crate::error::RecipeError;
use crate::modules::etcd::{self, Member};
use crate::modules::etcd_client;
use crate::modules::etcd_formed::Formed;

/// Members of cluster.yaml that this text of kubeadm's configuration does not list. None where it lists one that cluster.yaml does not have, or
/// where one has no data on its host: nothing is completed there.
pub fn lacking(cx: &PlanContext<'_>, kubeadm_config: &str) -> Result<Vec<Member>, RecipeError> {
    let (listed, members) = (etcd_client::endpoints_in(kubeadm_config), etcd::members(cx)?);
    let known: BTreeSet<&String> = members.iter().map(|member| &member.client).collect();
    let lacking: Vec<Member> = missing(&members, &listed).cloned().collect();
    let is_completed = listed.iter().all(|url| known.contains(url)) && lacking.iter().all(|one| has_data(cx, one));
    Ok(if is_completed { lacking } else { Vec::new() })
}

/// The same of the control plane that was initialised with that configuration.
pub fn unlisted(cx: &PlanContext<'_>) -> Result<Vec<Member>, RecipeError> {
    config_of_the_cluster(cx).map_or_else(|| Ok(Vec::new()), |text| lacking(cx, text))
}

fn config_of_the_cluster<'a>(cx: &PlanContext<'a>) -> Option<&'a str> {
    let planes = cx.cluster.role_groups.control_plane.iter().filter_map(|name| cx.facts.get(name));
    planes.filter(|facts| facts.joined).find_map(|facts| facts.kubeadm_config_text.as_deref())
}

/// None of a text without a list.
fn missing<'m>(members: &'m [Member], listed: &'m BTreeSet<String>) -> impl Iterator<Item = &'m Member> {
    members.iter().filter(|member| !listed.is_empty() && !listed.contains(&member.client))
}

fn has_data(cx: &PlanContext<'_>, member: &Member) -> bool {
    cx.facts.get(&member.name).is_some_and(|facts| Formed::of(facts).is_some())
}

/// Before API servers get such members: etcd itself has them, with a vote, and they answer.
///
/// # Errors
/// It has not: an API server that asks such a member may get nothing, or what the others have not agreed to.
pub fn check(cx: &PlanContext<'_>, running: &ClusterFacts) -> Result<(), RecipeError> {
    let members = etcd::members(cx)?;
    let listed = config_of_the_cluster(cx).map(etcd_client::endpoints_in).unwrap_or_default();
    for member in missing(&members, &listed).filter(|member| has_data(cx, member)) {
        let is_it = |found: &&EtcdMember| found.name == member.name && found.peer_urls.contains(&member.peer);
        let reason = match running.etcd.iter().find(is_it) {
            None if running.etcd.is_empty() => {
                "the members of etcd could not be asked for; see `kubexm-install status -f cluster.yaml`, mend what it names, then run this again"
                    .to_owned()
            }
            None => format!(
                "the other members do not have it in their list; `kubexm-install delete-node {0} -f cluster.yaml`, then `kubexm-install add-node {0}`",
                member.name
            ),
            Some(found) if found.learner => format!(
                "it has no vote yet; `kubexm-install delete-node {0} -f cluster.yaml`, then `kubexm-install add-node {0}`",
                member.name
            ),
            Some(found) if !found.healthy => {
                "it does not answer; look at `journalctl -u kubexm-etcd` there, start it, then run this again".to_owned()
            }
            Some(_) => continue,
        };
        return Err(RecipeError::MemberNotListed { host: member.name.clone(), reason });
    }
    Ok(())
}
