//! What kubeadm has recorded of a cluster, and what a host's own files say of its kubelet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// [`super::Gap::what`] of [`KubeadmCluster`].
pub const KUBEADM_CONFIG: &str = "kubeadm's configuration of the cluster";

/// [`super::Gap::what`] of [`KubeletFacts::programs`].
pub const PROGRAMS: &str = "programs of Kubernetes";

/// What decides in `ClusterConfiguration` of the ConfigMap `kubeadm-config` in kube-system, as kubeadm writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeadmCluster {
    /// `clusterName`.
    pub name: String,
    /// `kubernetesVersion`, of the last init or upgrade.
    pub version: String,
    /// `controlPlaneEndpoint`; empty if the cluster has none.
    pub endpoint: String,
    /// `networking.dnsDomain`.
    pub dns_domain: String,
    /// `networking.podSubnet`: one network, or one of each family with a comma between; empty if it has none.
    pub pod_networks: String,
    /// `networking.serviceSubnet`, alike.
    pub service_networks: String,
    /// `imageRepository`.
    pub image_repository: String,
    /// What it sets for single images, by path: `etcd.local.imageTag`, `dns.imageRepository`. kubeadm keeps these in an upgrade.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own_images: BTreeMap<String, String>,
    /// `etcd.local.dataDir`; none if etcd is not kubeadm's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_data: Option<String>,
    /// `etcd.external`; none if etcd is kubeadm's. Its fields are the same in v1beta2, v1beta3 and v1beta4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_etcd: Option<EtcdAccess>,
}

/// How API servers reach an etcd that is not kubeadm's.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdAccess {
    /// `https://10.0.0.5:2379`, in their order.
    pub endpoints: Vec<String>,
    /// The file of its CA on a control plane, `/etc/ssl/etcd/ssl/ca.pem`; empty without TLS, as the two others.
    pub ca: String,
    /// The file of the client's certificate.
    pub certificate: String,
    /// The file of its key.
    pub key: String,
}

impl EtcdAccess {
    /// Its three files.
    pub fn files(&self) -> [&str; 3] {
        [&self.ca, &self.certificate, &self.key]
    }
}

/// The etcd of an API server, where that is not kubeadm's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiServerEtcd {
    /// By the flags in its manifest.
    pub access: EtcdAccess,
    /// What its keys begin with (`--etcd-prefix`).
    pub prefix: String,
    /// Files that [`KubeadmCluster::external_etcd`] names, and that are not on this host: `kubeadm upgrade` writes them into the manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

/// A host that kubeadm has made a node, by its own files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletFacts {
    /// Name in cluster.yaml.
    pub host: String,
    /// Endpoint of the container runtime, `unix:///run/containerd/containerd.sock`; none if no file of kubelet's names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Folder of the API server's certificates, by its manifest: kubeadm's `certificatesDir`. Where `/etc/kubernetes/pki` is a link to it,
    /// that name. None on a host without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<String>,
    /// Which API server its admin.conf names, `https://lb.example.com:6443`. None on a host without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The etcd of its API server; none on a host without one, and where etcd is kubeadm's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<ApiServerEtcd>,
    /// Programs of Kubernetes; only of a host whose cluster was adopted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramFacts>,
}

/// Where a program of Kubernetes is on a host, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramFacts {
    /// `kubelet`.
    pub name: String,
    /// Its file, links followed: of kubelet what its unit starts, of others what is found first in PATH.
    pub path: String,
    /// The package of the operating system that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
}
