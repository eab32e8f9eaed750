//! Observations from etcd: its members, and the status of each.

use std::thread;

use kubexm_plan::cluster_facts::{ETCD, EtcdMember, Gap};

use super::gaps::Gaps;
use crate::Machine;
use crate::ops::act::members::{self, Member, Reach, Status};

pub(super) fn look(machine: &Machine, host: &str) -> (Vec<EtcdMember>, Vec<Gap>) {
    let mut gaps = Gaps::of(host);
    let Reach { client, endpoints, .. } = match members::reach(machine) {
        Ok(Some(reach)) => reach,
        Ok(None) => {
            gaps.add(
                ETCD,
                "neither an etcd of kubeadm's is on this host, nor the API server's certificate for another one",
            );
            return (Vec::new(), gaps.found);
        }
        Err(error) => {
            gaps.add(ETCD, error.full());
            return (Vec::new(), gaps.found);
        }
    };
    let mut answers = endpoints.iter().map(|endpoint| client.list(machine, endpoint));
    let first = answers.next().map(|first| first.or_else(|error| answers.find_map(Result::ok).ok_or(error)));
    let Some(listed) = first.and_then(|answer| gaps.note(ETCD, answer)) else { return (Vec::new(), gaps.found) };
    let ask = |member: &Member| {
        let mut why = "it has no client URL: it has not started yet".to_owned();
        let is_it = |status: &Status| status.member.as_ref().is_none_or(|id| *id == member.id);
        for endpoint in &member.clients {
            match client.status(machine, endpoint) {
                Ok(status) if is_it(&status) => return Ok(status),
                Ok(_) => why = format!("another member of etcd answers at {endpoint}"),
                Err(error) => why = error.full(),
            }
        }
        // Members of an etcd of the user's may call themselves by names of a network of theirs.
        let known = endpoints.iter().filter(|endpoint| !member.clients.contains(endpoint));
        let mut answers = known.filter_map(|endpoint| client.status(machine, endpoint).ok());
        answers.find(|status| status.member.as_ref() == Some(&member.id)).ok_or(why)
    };
    let statuses: Vec<_> = thread::scope(|scope| {
        let asked: Vec<_> = listed.iter().map(|member| scope.spawn(|| ask(member))).collect();
        let fault = || Err("it was not asked, because of a fault of this program".to_owned());
        asked.into_iter().map(|asked| asked.join().unwrap_or_else(|_| fault())).collect()
    });
    let mut found = Vec::new();
    for (member, status) in listed.into_iter().zip(statuses) {
        let id = member.id.parse::<u64>().map_or_else(|_| member.id.clone(), |id| format!("{id:x}"));
        let (version, healthy, database) = match status {
            Ok(status) => {
                if let Some(trouble) = &status.trouble {
                    gaps.add(&format!("health of etcd member {}", member.name), trouble.clone());
                }
                (Some(status.version), status.trouble.is_none(), status.database)
            }
            Err(why) => {
                let name = if member.name.is_empty() { &id } else { &member.name };
                gaps.add(&format!("etcd member {name}"), why);
                (None, false, None)
            }
        };
        let (name, peer_urls, learner) = (member.name, member.peers, member.learner);
        found.push(EtcdMember { id, name, peer_urls, version, healthy, learner, database });
    }
    found.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
    (found, gaps.found)
}
