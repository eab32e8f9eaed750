//! Removes a member of etcd.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::ActKind;
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// Removes the etcd member of another control plane from the member list, through this host's own member. Refused if the
/// remaining members would have no quorum. Done: no member has this name or one of these peer URLs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberRemove {
    /// Name of the member, which kubeadm takes from the node.
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

    fn effect(&self) -> Effect<'_> {
        Effect::RemovesMember { name: &self.name }
    }
}

impl fmt::Display for MemberRemove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act remove etcd member {} ({})", self.name, self.peers.join(" "))
    }
}
