//! Deletes what a cluster has in an etcd of the user's.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::{ActKind, Review};
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// Deletes every key below a prefix in an etcd of the user's, with the API server's certificate, and no other key. No API server may run
/// any more. Done: there is no key below the prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdKeysDelete {
    /// `https://10.0.0.5:2379`; the first that answers is asked.
    pub endpoints: Vec<String>,
    /// `/registry`: keys that begin with `/registry/` are deleted.
    pub prefix: String,
    /// How many they were when it was planned, for the question.
    pub keys: u64,
}

impl ActKind for EtcdKeysDelete {
    fn title(&self) -> &'static str {
        "delete keys of etcd"
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::unknown(Resource::EtcdKeys(self.prefix.clone()))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn review(&self) -> Review {
        Review {
            not_a_state: "The etcd is not kubexm's, others may use it, and what is deleted there does not come back.",
            done: "That etcd has no key below the prefix.",
            half_done: "Cannot be half done: etcd deletes the whole range in one transaction. Keys that are there afterwards are an error, \
                  since an API server still writes.",
            rollback: "None: only the backup that the command demands has the keys. The prompt says how many they are, where, and below \
                  which prefix, before it asks for the cluster's name.",
        }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::OfWhatItTouches
    }
}

impl fmt::Display for EtcdKeysDelete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "act delete keys of etcd below {}/ at {}", self.prefix, self.endpoints.join(" "))
    }
}
