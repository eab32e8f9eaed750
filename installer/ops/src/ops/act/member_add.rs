//! Adds another host's etcd member as a learner, through this host's own one, or through one that its API server asks.

use kubexm_plan::op::{MemberAdd, Progress};

use super::member_changes;
use super::members::Member;
use super::perform::Perform;
use crate::{Machine, OpError};

impl Perform for MemberAdd {
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        let (_, _, members) = member_changes::asked(machine)?;
        Ok(if members.iter().any(|member| is(self, member)) { Progress::Done } else { Progress::NotBegun })
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        let (client, endpoint, members) = member_changes::asked(machine)?;
        if members.iter().any(|member| is(self, member)) {
            return Ok(());
        }
        if let Some(other) = members.iter().find(|member| member.learner) {
            let name = if other.name.is_empty() { other.peers.join(" ") } else { other.name.clone() };
            return Err(OpError::other(format!(
                "etcd takes one new member after the other, and {name} was added and has no vote yet: if a run adds it, wait for that run; if \
                 not, `kubexm-install delete-node` removes what is left of its host"
            )));
        }
        member_changes::add_learner(machine, (&client, &endpoint), &self.peers)
    }
}

fn is(act: &MemberAdd, member: &Member) -> bool {
    member.peers.iter().any(|peer| act.peers.contains(peer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};

    impl ActCases for MemberAdd {
        const TESTED: Tested<ActCase<Self>> = Tested::In("etcd_members.rs");
    }
}
