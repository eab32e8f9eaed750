//! Changes of the list of etcd's members, by way of a member that answers.

use serde_json::json;

use super::members::{self, Client, Member, SETTLES_S, UNHEALTHY};
use crate::{Machine, OpError};

/// How long a member may take until it has the data of the others, in seconds: etcd's largest database, 8 GiB, over a link of 100 Mbit/s
/// and on a disk that is as slow.
const CATCHES_UP_S: u32 = 1_500;
/// etcd's `ErrLearnerNotReady`.
const NOT_READY: &str = "etcdserver: can only promote a learner member which is in sync with leader";

/// The members, and the one that said so: this host's own one, or the first that its API server asks and that answers.
pub(super) fn asked(machine: &Machine) -> Result<(Client, String, Vec<Member>), OpError> {
    let reach = members::own(machine)?.ok_or_else(|| {
        OpError::other("this host has no certificates of etcd, but it was planned as a control plane that stays")
    })?;
    let mut why = OpError::other("it is not known where a member of etcd could be asked");
    for endpoint in reach.endpoints {
        match reach.client.list(machine, &endpoint) {
            Ok(members) => return Ok((reach.client, endpoint, members)),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Adds a member that has no vote.
pub(super) fn add_learner(
    machine: &Machine,
    (client, endpoint): (&Client, &str),
    peers: &[String],
) -> Result<(), OpError> {
    let wanted = json!({"peerURLs": peers, "isLearner": true});
    client.change(machine, endpoint, ("add", &wanted), (UNHEALTHY, SETTLES_S))
}

/// Gives the member with this id its vote.
pub(super) fn promote(machine: &Machine, (client, endpoint): (&Client, &str), id: &str) -> Result<(), OpError> {
    client.change(machine, endpoint, ("promote", &json!({"ID": id})), (NOT_READY, CATCHES_UP_S))
}
