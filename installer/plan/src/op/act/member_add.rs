//! Adds a member to etcd, which does not vote yet.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::{ActKind, Review};
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// Adds the member of another host to an etcd of kubexm's that runs, as a learner: until it has the data ([`super::MemberPromote`]) it has no
/// vote, so that one that never starts costs no quorum. Done: a member has one of these peer URLs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberAdd {
    /// Name of its host, which it has as its own once it has started.
    pub name: String,
    /// `https://10.0.0.12:2380`.
    pub peers: Vec<String>,
}

impl ActKind for MemberAdd {
    fn title(&self) -> &'static str {
        "add etcd member"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::Member(self.name.clone()))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { resources: vec![Resource::AdminConf], ..Needs::nothing() }
    }

    fn review(&self) -> Review {
        Review {
            not_a_state: "Members are a list that only etcd changes, with a quorum, and a member that was added must start next.",
            done: "A member has the host's peer address.",
            half_done: "Cannot be half done: etcd commits the change or not.",
            rollback: "The member is removed from the list, before its host stops it.",
        }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::AddsMember { name: &self.name }
    }
}

impl fmt::Display for MemberAdd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act add etcd member {} ({})", self.name, self.peers.join(" "))
    }
}
