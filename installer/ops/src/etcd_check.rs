//! Asks an etcd of the user's: versions, health, quorum, and what is in it already. Changes nothing, there or here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::etcd_check::{EndpointAnswer, EtcdAnswer, EtcdAsk};

use crate::Machine;
use crate::ops::act::members::Client;

/// With the key of the ask's certificate.
pub fn ask(machine: &Machine, ask: &EtcdAsk, key: &[u8]) -> EtcdAnswer {
    let client = Client::of_bytes(ask.ca.as_bytes(), ask.certificate.as_bytes(), key);
    let mut answer = EtcdAnswer::default();
    for endpoint in &ask.endpoints {
        let one = match client.status(machine, endpoint) {
            Ok(status) => EndpointAnswer {
                version: Some(status.version),
                cluster: status.cluster,
                trouble: status.trouble,
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

/// The range of all keys that begin with a text, as the gateway takes it.
pub(crate) fn range_of(prefix: &str) -> (String, String) {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    (BASE64.encode(prefix), BASE64.encode(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_before_the_next_prefix() {
        let (from, to) = range_of("/registry/");
        let text = |encoded: &str| String::from_utf8(BASE64.decode(encoded).unwrap_or_default()).unwrap_or_default();
        assert_eq!((text(&from), text(&to)), ("/registry/".to_owned(), "/registry0".to_owned()));
    }
}
