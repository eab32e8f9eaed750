//! Removes another host's etcd member, through this host's own one, or through one that its API server asks.
//!
//! Before the other control plane is stopped: a stopped member that is still in the list counts for the quorum, and of
//! two members with one stopped the list cannot be changed any more.

use kubexm_plan::op::{MemberRemove, Progress};

use super::member_changes;
use super::members::{Client, Member};
use super::perform::Perform;
use crate::{Machine, OpError};

impl Perform for MemberRemove {
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        let (_, _, members) = member_changes::asked(machine)?;
        Ok(if members.iter().any(|member| is(self, member)) { Progress::NotBegun } else { Progress::Done })
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        let (client, endpoint, members) = member_changes::asked(machine)?;
        let Some(member) = members.iter().find(|member| is(self, member)) else { return Ok(()) };
        if !member.learner {
            refuse_without_quorum(self, machine, &client, &members)?;
        }
        client.remove(machine, &endpoint, &member.id)?;
        match client.list(machine, &endpoint)?.iter().any(|member| is(self, member)) {
            true => {
                Err(OpError::other(format!("etcd reported that member {} is removed, but still lists it", self.name)))
            }
            false => Ok(()),
        }
    }
}

fn is(act: &MemberRemove, member: &Member) -> bool {
    member.name == act.name || member.peers.iter().any(|peer| act.peers.contains(peer))
}

/// The plan has checked this too; a member may have failed since.
fn refuse_without_quorum(
    act: &MemberRemove,
    machine: &Machine,
    client: &Client,
    members: &[Member],
) -> Result<(), OpError> {
    let others: Vec<&Member> = members.iter().filter(|member| !is(act, member) && !member.learner).collect();
    let healthy = |member: &&&Member| {
        let answers = |url: &String| client.status(machine, url).is_ok_and(|status| status.trouble.is_none());
        member.clients.iter().any(answers)
    };
    let down: Vec<&str> = others.iter().filter(|member| !healthy(member)).map(|member| member.name.as_str()).collect();
    if (others.len() - down.len()) * 2 > others.len() {
        return Ok(());
    }
    Err(OpError::other(format!(
        "without member {} etcd would have no quorum: of the {} members that stay, these do not answer: {}; start them, \
         then run again",
        act.name,
        others.len(),
        down.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};

    impl ActCases for MemberRemove {
        const TESTED: Tested<ActCase<Self>> = Tested::In("drain.rs");
    }
}
