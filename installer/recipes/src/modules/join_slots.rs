//! Slots that a join reads.

use kubexm_plan::{SlotName, SlotProvider};

use crate::context::PlannedHost;
use crate::draft::Draft;

/// The slots that a join reads. Their values are made on the first control plane once it runs.
#[derive(Debug)]
pub struct Slots {
    /// Bootstrap token.
    pub token: SlotName,
    /// Hash of the cluster CA's public key.
    pub ca_hash: SlotName,
    /// Key of the uploaded certificates; read by joining control planes only.
    pub certificate_key: Option<SlotName>,
}

impl Slots {
    /// Adds the slots to the plan.
    pub fn of(draft: &mut Draft<'_>, first: &PlannedHost<'_>, control_plane: bool) -> Self {
        // kubeadm uploads nothing where the CA's key stays with the site: files are given instead.
        let uploaded = control_plane && draft.cx.cluster.external_ca().is_none();
        let host = || first.name().to_owned();
        Self {
            token: draft.slot("join-token", SlotProvider::JoinToken { host: host() }),
            ca_hash: draft.slot("ca-cert-hash", SlotProvider::CaCertHash { host: host() }),
            certificate_key: uploaded.then(|| draft.slot("certificate-key", SlotProvider::UploadKey { host: host() })),
        }
    }

    /// Their names.
    pub fn names(self) -> Vec<SlotName> {
        [self.token, self.ca_hash].into_iter().chain(self.certificate_key).collect()
    }
}
