//! `spec.kubernetes`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use serde::Serialize;
use serde_json::{Map, Value};

use super::host::SecretSource;
use super::material::MaterialFile;
use crate::keywords::keywords;

/// `spec.kubernetes`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kubernetes {
    /// What makes the cluster.
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    pub kind: KubernetesKind,
    /// `v1.34.4`, `v1.34` (its newest known patch), or none (the catalogue's default).
    pub version: Option<String>,
    /// `metadata.name` when not given.
    pub cluster_name: String,
    /// `cluster.local`.
    pub dns_domain: String,
    /// kube-proxy's mode.
    pub proxy_mode: ProxyMode,
    /// 110.
    pub max_pods: u32,
    /// Gates of every component by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Flags of kube-apiserver without their dashes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub api_server_args: BTreeMap<String, String>,
    /// Flags of kube-controller-manager without their dashes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub controller_manager_args: BTreeMap<String, String>,
    /// Flags of kube-scheduler without their dashes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scheduler_args: BTreeMap<String, String>,
    /// Extra names and addresses of the API server's certificate.
    pub cert_sans: Vec<String>,
    /// Whether a timer renews the control plane's certificates before they end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub auto_renew_certs: bool,
    /// A DNS cache on every node; none without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodelocaldns: Option<NodeLocalDns>,
    /// The API server's audit log; none without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// Raw KubeletConfiguration fields merged over the defaults.
    pub kubelet: Map<String, Value>,
    /// Raw KubeProxyConfiguration fields merged over the defaults.
    pub kube_proxy: Map<String, Value>,
}

fn is_default(kind: &KubernetesKind) -> bool {
    *kind == KubernetesKind::default()
}

keywords! {
    /// `spec.kubernetes.type`.
    pub enum KubernetesKind {
        /// kubeadm makes it; the control plane runs in static pods.
        Kubeadm = "kubeadm",
        /// Components are binaries under systemd.
        Kubexm = "kubexm",
    }
}

keywords! {
    /// kube-proxy's mode.
    pub enum ProxyMode {
        /// The default.
        Iptables = "iptables",
        /// nftables, stable from 1.33.
        Nftables = "nftables",
        /// IPVS, on its way out upstream.
        Ipvs = "ipvs",
    }
}

/// `spec.kubernetes.nodelocaldns`: a cache on every node, asked before CoreDNS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeLocalDns {
    /// Link-local address that pods ask.
    pub address: IpAddr,
}

impl Default for NodeLocalDns {
    fn default() -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(169, 254, 25, 10)) }
    }
}

/// `spec.kubernetes.audit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// The user's policy (audit.k8s.io/v1); when none, the default one, which leaves out noise.
    pub policy_file: Option<MaterialFile>,
    /// Where events are sent besides; nowhere when none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<AuditWebhook>,
    /// Days that old logs are kept.
    pub max_age: u32,
    /// How many old logs are kept.
    pub max_backups: u32,
    /// Megabytes at which a new log is begun.
    pub max_size: u32,
}

/// `spec.kubernetes.audit.webhook`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditWebhook {
    /// The kubeconfig that names the receiver, and logs in there.
    #[serde(rename = "kubeconfigFrom")]
    pub kubeconfig: SecretSource,
}

impl Default for Audit {
    fn default() -> Self {
        Self { policy_file: None, webhook: None, max_age: 30, max_backups: 10, max_size: 100 }
    }
}

impl Kubernetes {
    /// The defaults of the format for a cluster of this name.
    pub fn named(cluster: impl Into<String>) -> Self {
        Self {
            kind: KubernetesKind::default(),
            version: None,
            cluster_name: cluster.into(),
            dns_domain: "cluster.local".to_owned(),
            proxy_mode: ProxyMode::default(),
            max_pods: 110,
            feature_gates: BTreeMap::new(),
            api_server_args: BTreeMap::new(),
            controller_manager_args: BTreeMap::new(),
            scheduler_args: BTreeMap::new(),
            cert_sans: Vec::new(),
            auto_renew_certs: false,
            nodelocaldns: None,
            audit: None,
            kubelet: Map::new(),
            kube_proxy: Map::new(),
        }
    }
}
