//! The certificate of an authority, renewed: another one of the same name and the same key.

use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback};
use crate::kubeadm_certificates::AUTHORITIES;
use crate::path_state::PathState;
use crate::resource::ResourceChange;
use crate::slot::SlotName;

/// The file has a later certificate of the authority that it had: same subject, same key, same extensions. What the authority has signed
/// stays valid under either of the two (RFC 5280, section 6.1: a chain goes by names and keys), so hosts get it one after the other.
///
/// Rolled back to the certificate of before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthorityRenewed {
    /// One of [`crate::kubeadm_certificates::AUTHORITIES`], or that of an etcd of kubexm's.
    pub path: String,
    /// Where the certificate comes from.
    pub from: RenewedFrom,
}

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum RenewedFrom {
    /// Signed on this host with the authority's key, which is beside it.
    Key {
        /// Digest of the file as it was found. As with [`crate::op::Renewal`] no clock decides, so a run that is resumed renews nothing
        /// twice.
        was: Digest,
        /// When it ends, in seconds of Unix time.
        ends: i64,
    },
    /// As somebody else has renewed it: a control plane ([`crate::SlotProvider::SharedFile`]), or the controller
    /// ([`crate::SlotProvider::Authority`]).
    Given {
        /// The slot.
        slots: Vec<SlotName>,
    },
}

impl OpKind for AuthorityRenewed {
    type State = PathState;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let content = match &self.from {
            RenewedFrom::Key { was, .. } => format!("renewed, was {was}"),
            RenewedFrom::Given { slots } => slots.iter().map(SlotName::placeholder).collect(),
        };
        vec![ResourceChange::file(&self.path, format!("file 0644 {content}"))]
    }

    fn needs(&self) -> Needs<'_> {
        match &self.from {
            RenewedFrom::Key { .. } => Needs::nothing(),
            RenewedFrom::Given { slots } => Needs { slots, ..Needs::nothing() },
        }
    }

    /// kubeadm's folder is removed with the cluster.
    fn scope(&self) -> RemovalScope {
        match AUTHORITIES.contains(&self.path.as_str()) {
            true => RemovalScope::Cluster,
            false => RemovalScope::Host,
        }
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for AuthorityRenewed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            RenewedFrom::Key { .. } => write!(f, "authority {} renewed with its key", self.path),
            RenewedFrom::Given { .. } => write!(f, "authority {} as it was renewed", self.path),
        }
    }
}
