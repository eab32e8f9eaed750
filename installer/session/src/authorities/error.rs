//! Why the authorities of a cluster cannot be used from this home.

use kubexm_engine::SealedError;
use kubexm_plan::{ClusterId, SEALED_AUTHORITIES};
use kubexm_spec::ExitCode;

/// What to type when nobody can open them any more.
const LAST: &str = "if everything that opens them is lost, `kubexm-install create --new-registry-ca` makes a new CA and \
                    distributes it";

/// Why the authorities of a cluster cannot be used from this home. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum AuthoritiesError {
    /// They are sealed for others.
    #[error(
        "the CA of the cluster's registry is sealed for {for_whom}, and this home is none of them; nothing was changed. On one of \
         their machines add `- {{name: YOUR-NAME, recipient: {own}}}` to spec.operators of cluster.yaml and run \
         `kubexm-install create` there, then again here; {LAST}"
    )]
    ForOthers {
        /// Names and public keys.
        for_whom: String,
        /// The public key of this home.
        own: String,
    },
    /// The cluster's CA is in no home that this one knows: a program that did not seal it made the cluster from another home.
    #[error(
        "{host} trusts a CA of the registry that this home does not have: an earlier kubexm-install made the cluster from another \
         home, and did not seal it; nothing was changed. Add `- {{name: YOUR-NAME, recipient: {own}}}` to spec.operators of \
         cluster.yaml and run `kubexm-install create` from that home once, then again here; {LAST}"
    )]
    Elsewhere {
        /// A host of the cluster.
        host: String,
        /// The public key of this home.
        own: String,
    },
    /// A new CA of the registry is asked for from a home that lacks etcd's.
    #[error(
        "the members of etcd trust a CA that this home does not have, and a new CA of the registry would be sealed without it; \
         nothing was changed. On a machine of an operator who has it add `- {{name: YOUR-NAME, recipient: {own}}}` to \
         spec.operators of cluster.yaml and run `kubexm-install create`, then again here"
    )]
    NoEtcdCa {
        /// The public key of this home.
        own: String,
    },
    /// Two control planes have different ones.
    #[error(
        "{one} and {other} have different CAs of the registry in {SEALED_AUTHORITIES}; nothing was changed. If a run that makes a new \
         one has not ended, resume it or roll it back (`kubexm-install status`); else remove the file on the host that is wrong: \
         the next `create` writes it anew from the other one"
    )]
    Different {
        /// A control plane.
        one: String,
        /// Another one.
        other: String,
    },
    /// Nobody who is known has made the CA, or not every host has it.
    #[error(
        "{host}: {SEALED_AUTHORITIES} has another CA of the registry than {other}, and {why}; nothing was changed. If an operator made \
         it (`kubexm-install identity` prints an operator's key), add the key to spec.operators of your cluster.yaml and give that with -f; \
         if it was an earlier kubexm-install, move the folder clusters/NAME/pki of this home aside: the CA that every host trusts is then \
         taken over. If nobody made it, remove the file there: the next `create` writes it anew from this home, if it has the CA; {LAST}"
    )]
    CaUnproven {
        /// A control plane.
        host: String,
        /// A sentence.
        why: String,
        /// Who has the other one.
        other: String,
    },
    /// They belong to another cluster.
    #[error(
        "{host}: {SEALED_AUTHORITIES} belongs to the cluster {cluster:?} with id {found}, and the host to the one with id {wanted}; \
         nothing was changed. Find out who put it there, and remove it when another control plane has the right one; {LAST}"
    )]
    ClusterMismatch {
        /// A control plane.
        host: String,
        /// The name in the file.
        cluster: String,
        /// The id in the file.
        found: ClusterId,
        /// The cluster's id.
        wanted: ClusterId,
    },
    /// They cannot be read.
    #[error(
        "{host}: {SEALED_AUTHORITIES}: {error}; nothing was changed. Remove the file there when another control plane has it: the \
         next `create` writes it anew; {LAST}"
    )]
    Unusable {
        /// A control plane.
        host: String,
        error: SealedError,
    },
}

impl AuthoritiesError {
    pub(crate) const fn exit_code(&self) -> ExitCode {
        match self {
            Self::ForOthers { .. } | Self::Elsewhere { .. } | Self::Different { .. } | Self::NoEtcdCa { .. } => {
                ExitCode::Preflight
            }
            Self::ClusterMismatch { .. } | Self::CaUnproven { .. } | Self::Unusable { .. } => ExitCode::HostUntrusted,
        }
    }
}
