//! Slots: values that exist only while a run continues, and who makes them.

use serde::{Deserialize, Serialize};

/// The name of a slot: a value that exists only while running.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SlotName(pub String);

impl SlotName {
    /// What is in a text for the slot's value.
    pub fn placeholder(&self) -> String {
        format!("{{{{slot:{}}}}}", self.0)
    }
}

/// Who makes a slot's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SlotProvider {
    /// The cluster's registry CA certificate (PEM), kept in the controller's pki folder; not secret.
    RegistryCa,
    /// A server certificate chain (PEM) signed by the registry CA; not secret.
    RegistryCert {
        /// DNS names and addresses.
        sans: Vec<String>,
    },
    /// The key (PEM, PKCS#8) of the server certificate of another slot.
    RegistryKey {
        /// The certificate's slot.
        cert: SlotName,
    },
    /// A bootstrap token, made on a control plane; secret.
    JoinToken {
        /// Control plane that makes it.
        host: String,
    },
    /// `sha256:<hex>` over the public key of the cluster's CA (kubeadm's `caCertHashes`), read on a control plane;
    /// not secret.
    CaCertHash {
        /// Control plane where it is read.
        host: String,
    },
    /// The key under which the control plane's certificates were uploaded just now; secret.
    CertificateKey {
        /// Control plane that uploads them.
        host: String,
    },
    /// The operator's kubeconfig: the credentials of kubeadm's admin.conf on a control plane, checked and written anew by the
    /// controller with an address that it reaches; secret.
    AdminKubeconfig {
        /// Control plane that it comes from.
        host: String,
    },
    /// A secret of the operator, had where a field of cluster.yaml says; secret.
    Secret {
        /// `spec.kubernetes.audit.webhook.kubeconfigFrom`. Where that leads is not in the plan.
        field: String,
    },
}

impl SlotProvider {
    /// Whether the value may never be shown or stored outside its owner's file.
    pub const fn secret(&self) -> bool {
        match self {
            Self::RegistryKey { .. }
            | Self::JoinToken { .. }
            | Self::CertificateKey { .. }
            | Self::AdminKubeconfig { .. }
            | Self::Secret { .. } => true,
            Self::RegistryCa | Self::RegistryCert { .. } | Self::CaCertHash { .. } => false,
        }
    }

    /// The host that makes the value. Such a slot is filled only when a step that reads it was found wanting, and anew
    /// when the value is old; the others are kept by the controller and are the same in every run.
    pub fn made_on(&self) -> Option<&str> {
        match self {
            Self::JoinToken { host }
            | Self::CaCertHash { host }
            | Self::CertificateKey { host }
            | Self::AdminKubeconfig { host } => Some(host),
            Self::RegistryCa | Self::RegistryCert { .. } | Self::RegistryKey { .. } | Self::Secret { .. } => None,
        }
    }

    /// Whether a value that a host makes is what lies there: the same each time, so that a look asks for it, too, and finds that a
    /// step which reads it holds.
    pub const fn lasts(&self) -> bool {
        matches!(self, Self::AdminKubeconfig { .. })
    }

    /// The slot that this one cannot be made without.
    pub const fn needs(&self) -> Option<&SlotName> {
        match self {
            Self::RegistryKey { cert } => Some(cert),
            _ => None,
        }
    }
}
