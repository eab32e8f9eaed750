//! Asks an etcd of the user's: versions, health, quorum, and what is in it already. Changes nothing, there or here.

use kubexm_plan::ClusterId;
use kubexm_plan::etcd_check::{EndpointAnswer, EtcdAnswer, EtcdAsk, KeysOf};

use crate::etcd_keys::{self, Keys};
use crate::ops::act::members::{self, Client};
use crate::{Machine, OpError};

/// With the key of the ask's certificate; or with what the host's API server has, where it is asked whose the keys are.
pub fn ask(machine: &Machine, ask: &EtcdAsk, key: &[u8]) -> EtcdAnswer {
    if let Some(cluster) = ask.of {
        return match whose(machine, ask, cluster) {
            Ok((keys, of)) => {
                let endpoints = unasked(ask);
                EtcdAnswer { endpoints, keys: Some(keys), keys_of: Some(of), ..EtcdAnswer::default() }
            }
            Err(error) => silent(ask, &error),
        };
    }
    let client = if ask.as_api_server {
        match own_client(machine) {
            Ok(client) => client,
            Err(error) => return silent(ask, &error),
        }
    } else {
        Client::of_bytes(ask.ca.as_bytes(), ask.certificate.as_bytes(), key)
    };
    let mut answer = EtcdAnswer::default();
    for endpoint in &ask.endpoints {
        let one = match client.status(machine, endpoint) {
            Ok(status) => EndpointAnswer {
                version: Some(status.version),
                cluster: status.cluster,
                trouble: status.trouble,
                ahead_s: status.ahead_s,
                ..EndpointAnswer::default()
            },
            Err(error) => EndpointAnswer { trouble: Some(error.full()), ..EndpointAnswer::default() },
        };
        answer.endpoints.push(EndpointAnswer { endpoint: endpoint.clone(), ..one });
    }
    // Of one that answers, so that each problem is reported once.
    let Some(first) = answer.endpoints.iter().find(|one| one.version.is_some()).map(|one| one.endpoint.clone()) else {
        return answer;
    };
    match client.list_with_quorum(machine, &first) {
        Ok(members) => {
            let voting = members.into_iter().filter(|member| !member.learner);
            answer.members = Some(voting.flat_map(|member| member.clients).collect());
        }
        Err(error) => answer.why = Some(error.full()),
    }
    if answer.members.is_some() {
        match client.count(machine, &first, &format!("{}/", ask.prefix)) {
            Ok(count) => answer.keys = Some(count),
            Err(error) => answer.why = Some(error.full()),
        }
    }
    answer
}

fn silent(ask: &EtcdAsk, error: &OpError) -> EtcdAnswer {
    EtcdAnswer { endpoints: unasked(ask), why: Some(error.full()), ..EtcdAnswer::default() }
}

fn unasked(ask: &EtcdAsk) -> Vec<EndpointAnswer> {
    let of = |endpoint: &String| EndpointAnswer { endpoint: endpoint.clone(), ..EndpointAnswer::default() };
    ask.endpoints.iter().map(of).collect()
}

fn own_client(machine: &Machine) -> Result<Client, OpError> {
    let reach = members::as_api_server(machine)?;
    reach.map(|reach| reach.client).ok_or_else(|| {
        OpError::other(
            "the manifest of the API server on this host names no certificate for etcd (--etcd-cafile, --etcd-certfile, --etcd-keyfile), or \
             one of these files is not there",
        )
    })
}

fn whose(machine: &Machine, ask: &EtcdAsk, cluster: ClusterId) -> Result<(u64, KeysOf), OpError> {
    let (client, endpoint) = etcd_keys::reach(machine, &ask.endpoints)?;
    let keys = Keys::below(&client, machine, &endpoint, &ask.prefix)?;
    Ok((keys.count()?, keys.of(cluster)?))
}
