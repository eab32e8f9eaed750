//! Blobs in the node's content store. The engine sends what is missing; the agent verifies.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// Blobs that must be in the node's content store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Blobs {
    /// Sorted by digest, sizes in bytes.
    pub blobs: BTreeMap<Digest, u64>,
    /// Depots of this cluster that may have them, tried before the controller sends anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depots: Option<Depots>,
    /// Where this host serves them to the other hosts of the run once it has them, while the run lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_at: Option<SocketAddr>,
}

/// Depots that a node fetches blobs from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Depots {
    /// `https://10.0.0.5:5443`, in the order in which they are tried; a blob is `<url>/blobs/sha256/<hex>`.
    pub urls: Vec<String>,
    /// PEM file on the node with the CA of the depots.
    pub ca: String,
    /// File on the node with the `Authorization` header that the depots demand; none if they answer everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
}

impl Depots {
    /// Seconds that a node may take to fetch so many bytes; the controller sends what is missing then. Based on 2
    /// MiB/s, which is slow for a local network, and a minute to detect a depot that hangs.
    pub fn limit_s(&self, bytes: u64) -> u64 {
        let hanging = u64::try_from(self.urls.len()).unwrap_or(u64::MAX).saturating_mul(60);
        (bytes / (2 << 20)).saturating_add(hanging).saturating_add(120)
    }
}

impl Blobs {
    /// Seconds in which so many bytes come over a slow link (1 MiB/s), with five minutes for everything else.
    pub const fn delivery_s(bytes: u64) -> u64 {
        300 + bytes / (1 << 20)
    }

    /// Seconds in which so many of its bytes come from the depots and the controller alone.
    pub fn limit_s(&self, bytes: u64) -> u64 {
        let depots = self.depots.as_ref().map_or(0, |depots| depots.limit_s(bytes));
        Self::delivery_s(bytes).saturating_add(depots)
    }
}

/// Blobs of the op that are missing or incomplete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Missing {
    /// Their digests.
    pub missing: BTreeSet<Digest>,
}

impl OpKind for Blobs {
    type State = Missing;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        self.blobs.keys().map(|digest| ResourceChange::sets(Resource::Blob(*digest), "present").shared()).collect()
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::End
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for Blobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blobs in the store, {} bytes", self.blobs.len(), self.blobs.values().sum::<u64>())
    }
}

impl State for Missing {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
