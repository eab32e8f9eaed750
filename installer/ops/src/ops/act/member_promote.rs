//! Gives another host's etcd member its vote, through this host's own one, or through one that its API server asks.

use kubexm_plan::op::{MemberPromote, Progress};

use super::member_changes;
use super::members::Member;
use super::perform::Perform;
use crate::{Machine, OpError};

impl Perform for MemberPromote {
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        let (_, _, members) = member_changes::asked(machine)?;
        let votes = members.iter().any(|member| is(self, member) && !member.learner);
        Ok(if votes { Progress::Done } else { Progress::NotBegun })
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        let (client, endpoint, members) = member_changes::asked(machine)?;
        let Some(member) = members.iter().find(|member| is(self, member)) else {
            return Err(OpError::other(format!(
                "etcd does not list member {} ({}) any more, which was added before: somebody has removed it; run again",
                self.name,
                self.peers.join(" ")
            )));
        };
        if member.learner { member_changes::promote(machine, (&client, &endpoint), &member.id) } else { Ok(()) }
    }
}

fn is(act: &MemberPromote, member: &Member) -> bool {
    member.peers.iter().any(|peer| act.peers.contains(peer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};

    impl ActCases for MemberPromote {
        const TESTED: Tested<ActCase<Self>> = Tested::In("etcd_members.rs");
    }
}
