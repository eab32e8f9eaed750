//! Gives a member of etcd its vote.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::{ActKind, Review};
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// Gives the member of another host its vote, once it has the data of the others. Done: the member with one of these peer URLs is no
/// learner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberPromote {
    /// Name of the member, which is that of its host.
    pub name: String,
    /// `https://10.0.0.12:2380`.
    pub peers: Vec<String>,
}

impl ActKind for MemberPromote {
    fn title(&self) -> &'static str {
        "promote etcd member"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::Member(self.name.clone()))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { resources: vec![Resource::AdminConf], ..Needs::nothing() }
    }

    fn review(&self) -> Review {
        Review {
            not_a_state: "It is the second half of adding a member: etcd refuses it until the member has caught up, and nothing takes a vote \
                          back but the removal of the member.",
            done: "The member is no learner.",
            half_done: "Cannot be half done: etcd commits the change or not.",
            rollback: "The member is removed from the list, before its host stops it.",
        }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::PromotesMember { name: &self.name }
    }
}

impl fmt::Display for MemberPromote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act promote etcd member {} ({})", self.name, self.peers.join(" "))
    }
}
