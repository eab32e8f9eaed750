//! Health of etcd: of kubeadm's own, by the list of this host's member and the status of each; of one that is not kubeadm's, by each of its
//! members.

use std::collections::BTreeMap;

use kubexm_plan::ProbeAnswer;

use super::answer::{no, yes};
use crate::ops::act::members::{self, Client, LOCAL, Member};
use crate::{Machine, OpError};

/// `files`: CA, certificate and key of the client.
pub(super) fn healthy(
    machine: &Machine,
    members: &BTreeMap<String, String>,
    unnamed: bool,
    files: [&str; 3],
) -> Result<ProbeAnswer, OpError> {
    let files = files.map(str::to_owned);
    let Some(client) = Client::of_files(machine, &files)? else {
        return Ok(no(format!("one of {} is not there", files.join(", "))));
    };
    let mut ill = Vec::new();
    for (name, url) in members {
        match client.status(machine, url) {
            Ok(status) => ill.extend(status.trouble.map(|trouble| format!("{name}: {trouble}"))),
            Err(error) => ill.push(format!("{name}: {}", error.full())),
        }
    }
    if !ill.is_empty() {
        return Ok(no(ill.join("; ")));
    }
    let Some(first) = members.values().next() else { return Ok(yes("there are none")) };
    let listed = client.list_with_quorum(machine, first)?;
    let missing = |name: &&String| !unnamed && !listed.iter().any(|member| member.name == **name && !member.learner);
    let missing: Vec<&str> = members.keys().filter(missing).map(String::as_str).collect();
    Ok(match missing.is_empty() {
        true => yes(format!("{} answer and have a leader", members.len())),
        false => no(format!("etcd does not list {} as voting members", missing.join(", "))),
    })
}

pub(super) fn look(machine: &Machine, at_least: usize) -> Result<ProbeAnswer, OpError> {
    let Some(client) = members::client(machine)? else {
        return Ok(no("there are no certificates of etcd on this host"));
    };
    // A member that does not answer here would answer for itself elsewhere.
    let own = client.status(machine, LOCAL)?;
    let listed = client.list(machine, LOCAL)?;
    let mut troubles: Vec<String> = own.trouble.map(|why| format!("the one on this host: {why}")).into_iter().collect();
    if listed.len() < at_least {
        troubles.push(format!("it has {} members, and {at_least} are wanted", listed.len()));
    }
    troubles.extend(listed.iter().filter_map(|member| trouble(machine, &client, member)));
    Ok(match troubles.is_empty() {
        true => yes(format!("all {} members of etcd are healthy", listed.len())),
        false => no(format!("etcd is not healthy: {}", troubles.join("; "))),
    })
}

/// What is wrong with a member.
fn trouble(machine: &Machine, client: &Client, member: &Member) -> Option<String> {
    let Member { name, learner, .. } = member;
    if name.is_empty() {
        return Some(format!("the member of {} has not started", member.peers.join(", ")));
    }
    if *learner {
        return Some(format!("{name} is a learner, which does not vote"));
    }
    let mut why = "it has no client URL".to_owned();
    for endpoint in &member.clients {
        match client.status(machine, endpoint) {
            Ok(status) => return status.trouble.map(|trouble| format!("{name}: {trouble}")),
            Err(error) => why = error.full(),
        }
    }
    Some(format!("{name} does not answer: {why}"))
}
