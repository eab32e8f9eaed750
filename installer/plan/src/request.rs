//! Certificates that a site's CA signs for a cluster when its key stays with the site: what is requested, and where it is on a host.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kubeadm_certificates::{ADMIN_CONF, SUPER_ADMIN_CONF};

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requested {
    /// The API server's own.
    Apiserver,
    /// The API server's, as a client of kubelets.
    ApiserverKubeletClient,
    /// The administrator's kubeconfig.
    Admin,
    /// The same of a member of `system:masters`; on the first control plane.
    SuperAdmin,
    /// The controller manager's kubeconfig.
    ControllerManager,
    /// The scheduler's kubeconfig.
    Scheduler,
    /// kubelet's kubeconfig.
    Kubelet,
}

impl Requested {
    /// The last part of the request's name: `apiserver`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Apiserver => "apiserver",
            Self::ApiserverKubeletClient => "apiserver-kubelet-client",
            Self::Admin => "admin",
            Self::SuperAdmin => "super-admin",
            Self::ControllerManager => "controller-manager",
            Self::Scheduler => "scheduler",
            Self::Kubelet => "kubelet",
        }
    }

    /// What it is for, for people who sign it.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Apiserver => "server certificate of the API server",
            Self::ApiserverKubeletClient => "client certificate of the API server for kubelets",
            Self::Admin => "client certificate of the cluster's administrator",
            Self::SuperAdmin => "client certificate of the administrator whom no rule locks out",
            Self::ControllerManager => "client certificate of the controller manager",
            Self::Scheduler => "client certificate of the scheduler",
            Self::Kubelet => "client certificate of the node's kubelet",
        }
    }

    /// The file of the certificate on the host: PEM with a key beside it, or a kubeconfig.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Apiserver => "/etc/kubernetes/pki/apiserver.crt",
            Self::ApiserverKubeletClient => "/etc/kubernetes/pki/apiserver-kubelet-client.crt",
            Self::Admin => ADMIN_CONF,
            Self::SuperAdmin => SUPER_ADMIN_CONF,
            Self::ControllerManager => "/etc/kubernetes/controller-manager.conf",
            Self::Scheduler => "/etc/kubernetes/scheduler.conf",
            Self::Kubelet => KUBELET_CONF,
        }
    }

    /// The file of its key; none for a kubeconfig, which has it inside.
    pub fn key(self) -> Option<String> {
        self.path().strip_suffix(".crt").map(|path| format!("{path}.key"))
    }
}

/// kubelet's kubeconfig. Its certificate is in it where a site has signed it; otherwise it names the file that kubelet renews.
pub const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";

impl fmt::Display for Requested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A certificate as the site's CA is asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CertificateRequest {
    /// `node1-apiserver`: the name of its files, without their ends.
    pub name: String,
    /// The host that uses it.
    pub host: String,
    /// What it is for.
    pub of: Requested,
    /// Common name of the subject: the user name of a client.
    pub common_name: String,
    /// Organizations of the subject: the groups of a client.
    pub organizations: Vec<String>,
    /// DNS names and addresses, sorted, each once.
    pub sans: Vec<String>,
}

impl CertificateRequest {
    /// Whether it is a server's; the others are of clients.
    pub fn is_server(&self) -> bool {
        self.of == Requested::Apiserver
    }

    /// Its extended key usage, in OpenSSL's word.
    pub fn usage(&self) -> &'static str {
        if self.is_server() { "serverAuth" } else { "clientAuth" }
    }

    /// `CN=kubernetes-admin, O=kubeadm:cluster-admins`.
    pub fn subject(&self) -> String {
        let organizations = self.organizations.iter().map(|one| format!(", O={one}"));
        std::iter::once(format!("CN={}", self.common_name)).chain(organizations).collect()
    }
}
