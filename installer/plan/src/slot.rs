//! Slots: values that exist only during a run, and who provides them.

use std::collections::BTreeSet;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::sealed::Recipient;

/// The name of a slot: a value that exists only during a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SlotName(pub String);

impl SlotName {
    /// The placeholder for the slot's value in a text.
    pub fn placeholder(&self) -> String {
        format!("{{{{slot:{}}}}}", self.0)
    }
}

/// A certificate authority that the controller keeps for a cluster. What it signs is trusted only for this purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Authority {
    /// For the depot and the registry.
    #[default]
    Registry,
    /// For etcd's members and clients, if kubeadm does not manage etcd.
    Etcd,
}

/// The subject and the allowed uses of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateUse {
    /// The authority that signs it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub authority: Authority,
    /// Common name: the user name of a client (at most 64 characters, RFC 5280 ub-common-name). None if only `sans` are
    /// used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_name: Option<String>,
    /// Organizations: the groups of a client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub organizations: Vec<String>,
    /// DNS names and addresses.
    pub sans: Vec<String>,
    /// Whether it is a client certificate. With `sans` it is a server certificate as well.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client: bool,
    /// How long one that is made now is valid, in hours; never longer than its authority. One that is there stays until it is due. None in
    /// plans of earlier programs: ten years.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_h: Option<u32>,
    /// Digests of chains (PEM) that are renewed: none of them is given out again. As with [`crate::op::Renewal`] no clock decides, so a
    /// run that is resumed renews nothing twice.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub replaces: BTreeSet<Digest>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Who provides a slot's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SlotProvider {
    /// The certificate (PEM) of one of the cluster's authorities, from the controller's pki folder; not secret.
    // Plans of earlier programs have the names below: the registry's were the first certificates.
    #[serde(rename = "registryCa")]
    Authority {
        /// The authority.
        #[serde(default, skip_serializing_if = "is_default")]
        authority: Authority,
        /// How long it is valid if it is made now, in hours. None in plans of earlier programs: ten years.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        valid_h: Option<u32>,
        /// Digests of certificates (PEM) that are renewed under the same key: none of them is given out again.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        replaces: BTreeSet<Digest>,
    },
    /// A certificate chain (PEM) that the controller signs; not secret.
    #[serde(rename = "registryCert")]
    Certificate(CertificateUse),
    /// The key (PEM, PKCS#8) of the certificate of another slot; secret.
    #[serde(rename = "registryKey")]
    CertificateKey {
        /// The slot of the certificate.
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
    /// The key of the control plane's certificates that were just uploaded (kubeadm's `certificateKey`); secret.
    #[serde(rename = "certificateKey")]
    UploadKey {
        /// Control plane that uploads them.
        host: String,
    },
    /// The operator's kubeconfig: the credentials of kubeadm's admin.conf from a control plane, verified and rewritten
    /// by the controller with an address that it can reach; secret.
    AdminKubeconfig {
        /// Control plane that it comes from.
        host: String,
    },
    /// A client certificate for a node's kubelet with its key (PEM), signed on a control plane by the cluster's CA: for a
    /// kubelet whose own has ended. Secret.
    KubeletClient {
        /// Control plane that signs it.
        host: String,
        /// The node.
        node: String,
    },
    /// The key of a certificate that the site's CA has signed for a request, from the controller's folder of requests; secret.
    RequestKey {
        /// What it is the key of, for messages: `node1-apiserver`.
        name: String,
        /// Digest of its public key (SubjectPublicKeyInfo in DER), by which it is found: the certificate beside it has this one.
        public: Digest,
        /// How it is written down.
        form: KeyForm,
    },
    /// A file that all control planes share, read on one that has it: authorities with their keys, keys of service accounts. Secret.
    SharedFile {
        /// The control plane.
        host: String,
        /// One of [`crate::kubeadm_certificates::SHARED`] or [`crate::kubeadm_certificates::AUTHORITIES`].
        path: String,
    },
    /// What opens the archive of a backup, which the controller has opened; secret.
    BackupKey,
    /// A file of a backup's archive, which the controller has read there: a key of the cluster's own authorities. Secret.
    BackupFile {
        /// `/etc/kubernetes/pki/ca.key`.
        path: String,
    },
    /// The authorities and their certificates, sealed (age) for these recipients by the controller. The bytes differ each
    /// time they are sealed, so the controller keeps them until what is inside, or for whom, changes.
    SealedAuthorities {
        /// Sorted by key.
        recipients: Vec<Recipient>,
        /// The run makes a new CA for the registry in place of the one that the cluster has.
        #[serde(default, skip_serializing_if = "is_default")]
        new_registry_ca: bool,
    },
    /// A secret of the operator, from the source that a field of cluster.yaml names; secret.
    Secret {
        /// `spec.kubernetes.audit.webhook.kubeconfigFrom`. The source itself is not in the plan.
        field: String,
    },
    /// A password that follows from the key of the registry's authority, so that it is the same in every run and for every
    /// operator who has that key; secret.
    DerivedPassword {
        /// What it is for: `harbor-robot`. Another word is another password.
        purpose: String,
        /// With a user name the value is the `Authorization` header of the two.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        username: Option<String>,
    },
    /// A login at a registry, made of such a secret: its password; secret.
    RegistryLogin {
        /// `spec.registry.auths.registry.demo.kubexm.internal.passwordFrom`.
        field: String,
        /// User name.
        username: String,
        /// What is made of the two.
        form: LoginForm,
    },
}

/// How a key is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeyForm {
    /// PEM (PKCS#8).
    Pem,
    /// The same in base64, as in a kubeconfig.
    Base64,
}

/// How a login is written down for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LoginForm {
    /// For a client: the value of an `Authorization` header by RFC 7617, `Basic …`. The password can be read from it.
    Header,
    /// For a client that keeps logins in a file of JSON (`containers-auth.json(5)`): user name and password in base64. The password can
    /// be read from it.
    Auth,
    /// For a server: a line of htpasswd with a hash by bcrypt.
    Htpasswd,
}

impl SlotProvider {
    /// The certificate of the registry's authority.
    pub const REGISTRY_CA: Self =
        Self::Authority { authority: Authority::Registry, valid_h: None, replaces: BTreeSet::new() };

    /// Whether the value must never be shown, or stored outside of its own file.
    pub const fn secret(&self) -> bool {
        match self {
            Self::CertificateKey { .. }
            | Self::JoinToken { .. }
            | Self::UploadKey { .. }
            | Self::AdminKubeconfig { .. }
            | Self::KubeletClient { .. }
            | Self::RequestKey { .. }
            | Self::SharedFile { .. }
            | Self::BackupKey
            | Self::BackupFile { .. }
            | Self::SealedAuthorities { .. }
            | Self::Secret { .. }
            | Self::DerivedPassword { .. }
            | Self::RegistryLogin { .. } => true,
            Self::Authority { .. } | Self::Certificate(_) | Self::CaCertHash { .. } => false,
        }
    }

    /// The host that makes the value, if any. Such a slot is filled only if a step that reads it is not satisfied, and
    /// again when the value expires. The other values are kept by the controller and are the same in every run.
    pub fn made_on(&self) -> Option<&str> {
        match self {
            Self::JoinToken { host }
            | Self::CaCertHash { host }
            | Self::UploadKey { host }
            | Self::KubeletClient { host, .. }
            | Self::SharedFile { host, .. }
            | Self::AdminKubeconfig { host } => Some(host),
            Self::Authority { .. }
            | Self::Certificate(_)
            | Self::RequestKey { .. }
            | Self::CertificateKey { .. }
            | Self::SealedAuthorities { .. }
            | Self::BackupKey
            | Self::BackupFile { .. }
            | Self::Secret { .. }
            | Self::DerivedPassword { .. }
            | Self::RegistryLogin { .. } => None,
        }
    }

    /// The field of cluster.yaml that names the source of the secret that the value is, or is made of.
    pub const fn secret_field(&self) -> Option<&String> {
        match self {
            Self::Secret { field } | Self::RegistryLogin { field, .. } => Some(field),
            _ => None,
        }
    }

    /// Whether the host's value is the same each time, so that it can be read while observing to see whether the step
    /// that uses it is satisfied.
    pub const fn lasts(&self) -> bool {
        matches!(self, Self::AdminKubeconfig { .. } | Self::SharedFile { .. })
    }

    /// The slot whose value is needed to make this one.
    pub const fn needs(&self) -> Option<&SlotName> {
        match self {
            Self::CertificateKey { cert } => Some(cert),
            _ => None,
        }
    }
}
