//! Removes a member of etcd.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::{ActKind, Review};
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// Removes the etcd member of another host from the member list, through this host's own member, or through one that its API server asks.
/// Refused if the remaining members would have no quorum. Done: no member has this name or one of these peer URLs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberRemove {
    /// Name of the member, which is that of its host.
    pub name: String,
    /// `https://10.0.0.12:2380`. A member that never started has no name.
    pub peers: Vec<String>,
}

impl ActKind for MemberRemove {
    fn title(&self) -> &'static str {
        "remove etcd member"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::Member(self.name.clone()))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { resources: vec![Resource::AdminConf], ..Needs::nothing() }
    }

    fn review(&self) -> Review {
        Review {
            not_a_state: "Members are a list that only etcd changes, with a quorum; a removed member can never come \
                  back with its data.",
            done: "No member has the node's name or its peer address.",
            half_done: "Cannot be half done: etcd commits the change or not. The health of the members that stay is \
                  checked again right before.",
            rollback: "None: the host that was removed joins anew with `add-node`. The prompt lists it before it \
                  asks.",
        }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::RemovesMember { name: &self.name }
    }
}

impl fmt::Display for MemberRemove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act remove etcd member {} ({})", self.name, self.peers.join(" "))
    }
}
