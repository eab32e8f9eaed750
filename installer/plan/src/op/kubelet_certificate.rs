//! kubelet's client certificate, made for it since it can no longer renew it by itself.

use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};
use crate::slot::SlotName;

/// Where kubelet looks for its certificate: a link to the file of its current one.
pub const KUBELET_CLIENT: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";
/// The file that the link names afterwards. kubelet's own files have a date there; this is one of its kind.
pub const KUBELET_CLIENT_RENEWED: &str = "/var/lib/kubelet/pki/kubelet-client-kubexm.pem";

/// kubelet's client certificate is no longer the one that was found. kubelet renews its own before it ends; this is for one
/// that has ended, with which it can ask nobody for another. It is restarted to read it (and ends by itself, to be started
/// again by systemd, if it finds that its own has ended: kubelet's `certificate/transport.go`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletCertificate {
    /// Slot with the certificate and its key (PEM), from [`crate::SlotProvider::KubeletClient`].
    pub slots: Vec<SlotName>,
    /// Digest of the file as it was found.
    pub was: Digest,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletClient {
    /// [`KUBELET_CLIENT`].
    pub link: PathState,
    /// [`KUBELET_CLIENT_RENEWED`].
    pub file: PathState,
    /// Digest of the file that the link names.
    pub current: Option<Digest>,
}

impl OpKind for KubeletCertificate {
    type State = KubeletClient;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![
            ResourceChange::file(KUBELET_CLIENT, format!("link renewed, was {}", self.was)),
            ResourceChange::unknown(Resource::Path(KUBELET_CLIENT_RENEWED.to_owned())),
        ]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { slots: &self.slots, ..Needs::nothing() }
    }

    /// It is in kubelet's folder, which is removed with the cluster.
    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for KubeletCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("kubelet with another client certificate")
    }
}

impl State for KubeletClient {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        vec![&self.link, &self.file]
    }

    fn is_back(&self, then: &Self) -> Option<bool> {
        Some(self.current == then.current)
    }
}
