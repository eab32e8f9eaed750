//! What is done otherwise for some minor versions of Kubernetes, and what cluster.yaml cannot have with them. Every number is the second one
//! of a version: 25 is Kubernetes 1.25.

use kubexm_spec::KubernetesVersion;
use kubexm_spec::cluster::{Keyword as _, Kubernetes, ProxyMode};

use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;
use crate::network;

/// kubeadm taints control planes with `node-role.kubernetes.io/control-plane` alone; before with `master`, too, which add-ons of today do
/// not tolerate (kubernetes/kubeadm#2200).
pub const ONE_TAINT: u32 = 25;
/// kubeadm patches kubelet's configuration of one node (kubernetes/kubernetes#110405); before it ignores such a patch.
pub const KUBELET_PATCHES: u32 = 25;
/// The cache of kubeadm's CoreDNS can leave out a zone (1.9.4 and later, by its notes); one before does not start with such a Corefile.
pub const CACHE_LEAVES_OUT: u32 = 27;
/// Every API server ends its watches when it stops (kubernetes/kubernetes#114925).
pub const WATCHES_END: u32 = 28;
/// admin.conf is of a group that has no rights before kubeadm's init ends, and super-admin.conf is there for that time (CHANGELOG-1.29).
pub const SUPER_ADMIN: u32 = 29;
/// `kubeadm upgrade apply` has phases (CHANGELOG-1.32). Before, it brings kube-proxy only where its ConfigMap is.
pub const UPGRADE_PHASES: u32 = 32;

/// kube-proxy has nftables without a gate of its own (beta).
const NFTABLES: u32 = 31;
/// `kubeadm upgrade` signs no kubeconfig that its version needs for the first time: that of 1.29 makes super-admin.conf, and ends with an
/// error without the CA's key (kubernetes/kubeadm#3055). Before, the administrators' certificates are of another group.
/// Before 1.33, kubelet of a control plane that joins registers by kubelet.conf before its own API server has an etcd, and ours names that
/// server (kubernetes/kubernetes#125582).
const SITE_CA: u32 = 33;
/// kubeadm's API can leave kube-proxy out (`proxy.disabled`); before, it pulls kube-proxy's image whatever is skipped
/// (kubernetes/kubernetes#114979).
const NO_KUBE_PROXY: u32 = 31;
/// A pod can read all addresses of its node (`status.hostIPs`, `PodHostIPs`, on by default).
const HOST_IPS: u32 = 29;
/// kubeadm's API v1beta4, whose ClusterConfiguration has periods.
const PERIODS: u32 = 31;

/// Fields of KubeletConfiguration by the first minor version that has them, of 1.25 and later (`kubelet/config/v1beta1/types.go` at the
/// newest tag of each): kubelet leaves out one that it does not know, and says so in its journal only. None has gone again.
const KUBELET_FIELDS: [(u32, &[&str]); 9] = [
    (25, &["localStorageCapacityIsolation", "tracing"]),
    (26, &["topologyManagerPolicyOptions"]),
    (27, &["containerRuntimeEndpoint", "enableSystemLogQuery", "imageServiceEndpoint", "maxParallelImagePulls"]),
    (29, &["imageMaximumGCAge"]),
    (30, &["containerLogMaxWorkers", "containerLogMonitorInterval", "podLogsDir"]),
    (31, &["failCgroupV1"]),
    (32, &["crashLoopBackOff", "singleProcessOOMKill"]),
    (
        33,
        &[
            "imagePullCredentialsVerificationPolicy",
            "mergeDefaultEvictionSettings",
            "preloadedImagesVerificationAllowlist",
            "userNamespaces",
        ],
    ),
    (36, &["memoryReservationPolicy", "tlsCurvePreferences"]),
];

/// The minor version of the bundle's Kubernetes for a node.
pub fn of(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<u32, RecipeError> {
    let version = cx.kubernetes_version(node.platform)?;
    let fault = |_| RecipeError::NotInBundle { missing: vec![format!("catalogue entry for Kubernetes {version}")] };
    version.parse::<KubernetesVersion>().map(|version| version.minor()).map_err(fault)
}

/// What cluster.yaml asks for and a version does not have.
pub fn refused(cx: &PlanContext<'_>, version: &KubernetesVersion) -> Vec<RecipeError> {
    let (Ok(kubernetes), minor) = (cx.kubernetes(), version.minor()) else { return Vec::new() };
    let mut all: Vec<(String, String)> = Vec::new();
    if kubernetes.proxy_mode == ProxyMode::Nftables && minor < NFTABLES {
        let instead = format!("choose iptables or ipvs, or Kubernetes 1.{NFTABLES} or later, where it is no alpha");
        all.push(("kubernetes.proxyMode nftables".to_owned(), instead));
    }
    for (field, is_set) in periods(kubernetes) {
        if is_set && minor < PERIODS {
            let instead = format!(
                "leave it out, or name Kubernetes 1.{PERIODS} or later: the kubeadm before signs for one year, and its authorities for ten"
            );
            all.push((format!("kubernetes.{field}"), instead));
        }
    }
    if cx.cluster.external_ca().is_some() && minor < SITE_CA {
        let instead = format!(
            "give the CA's key (keyFrom), or name Kubernetes 1.{SITE_CA} or later: before, a control plane cannot join with a certificate that \
             was signed elsewhere"
        );
        all.push(("kubernetes.ca.certificatesFolder".to_owned(), instead));
    }
    for (first, fields) in KUBELET_FIELDS.into_iter().filter(|(first, _)| minor < *first) {
        for field in fields.iter().filter(|field| kubernetes.kubelet.contains_key(**field)) {
            let instead = format!("leave it out: kubelet knows it from 1.{first} on, and leaves it out before");
            all.push((format!("kubernetes.kubelet.{field}"), instead));
        }
    }
    let network = &cx.cluster.network;
    if network.replaces_kube_proxy() && minor < NO_KUBE_PROXY {
        let instead = format!(
            "leave it out, or name Kubernetes 1.{NO_KUBE_PROXY} or later: the kubeadm before pulls kube-proxy's image in any case"
        );
        all.push(("network.options.kubeProxyReplacement".to_owned(), instead));
    }
    if network::needs_host_ips(cx.cluster) && minor < HOST_IPS {
        let instead = format!(
            "name one network, another plugin, or Kubernetes 1.{HOST_IPS} or later, whose pods can read both addresses of their node"
        );
        all.push((format!("network.podCidr of two stacks with {}", network.plugin.word()), instead));
    }
    let line = version.line();
    all.into_iter()
        .map(|(what, hint)| RecipeError::Unsupported { what: format!("spec.{what} with Kubernetes {line}"), hint })
        .collect()
}

const fn periods(kubernetes: &Kubernetes) -> [(&'static str, bool); 2] {
    [
        ("certificateValidityPeriod", kubernetes.certificate_validity.is_some()),
        ("caCertificateValidityPeriod", kubernetes.ca_certificate_validity.is_some()),
    ]
}
