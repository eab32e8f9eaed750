//! Members of an etcd that is not kubeadm's: each answers, has a leader, and all know each other.

use std::collections::BTreeMap;

use kubexm_plan::ProbeAnswer;

use super::answer::{no, yes};
use crate::ops::act::members::Client;
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
