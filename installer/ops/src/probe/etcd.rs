//! etcd as a whole is healthy, by the list of this host's member and the status of each.

use kubexm_plan::ProbeAnswer;

use super::answer::{no, yes};
use crate::ops::act::members::{self, Client, LOCAL, Member};
use crate::{Machine, OpError};

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
