//! Certificates that kubeadm manages on a control plane, renewed.

use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// Certificates of kubeadm that are no longer the ones that were found when the plan was made (`kubeadm certs renew`).
/// So a run that continues renews none of them twice, whatever the clock says. Their keys are made anew with them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CertificatesRenewed {
    /// In the order in which they are renewed.
    pub certificates: Vec<Renewal>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Renewal {
    /// kubeadm's name of it: `apiserver`, `admin.conf`.
    pub name: String,
    /// The file that it is in: a certificate with its key beside it, or a kubeconfig.
    pub path: String,
    /// Digest of that file as it was found.
    pub was: Digest,
}

impl Renewal {
    /// The file of its key; none for a kubeconfig, which has it inside.
    pub fn key(&self) -> Option<String> {
        self.path.strip_suffix(".crt").map(|path| format!("{path}.key"))
    }

    /// Every file of it.
    pub fn files(&self) -> impl Iterator<Item = String> {
        std::iter::once(self.path.clone()).chain(self.key())
    }
}

/// The files as they were found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RenewedFiles {
    /// Certificates, keys and kubeconfigs, in the order of [`Renewal::files`].
    pub files: Vec<PathState>,
}

impl OpKind for CertificatesRenewed {
    type State = RenewedFiles;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let all = self.certificates.iter().flat_map(|one| {
            let key = one.key().map(|path| ResourceChange::unknown(Resource::Path(path)));
            std::iter::once(ResourceChange::file(one.path.clone(), format!("file 0600 renewed, was {}", one.was)))
                .chain(key)
        });
        all.collect()
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    /// They are in kubeadm's folder, which is removed with the cluster.
    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for CertificatesRenewed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.certificates.iter().map(|one| one.name.as_str()).collect();
        write!(f, "certificates renewed: {}", names.join(" "))
    }
}

impl State for RenewedFiles {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        self.files.iter().collect()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
