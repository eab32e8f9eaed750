//! `spec.kubernetes`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Map, Value};

use super::certificates::{ClusterCa, Validity};
use super::field::{FieldType, Flag, Gate, KubernetesVersion, Named, Number, Subdomain, SubjectName, section};
use super::host::SecretSource;
use super::material::MaterialFile;
use crate::keywords::keywords;
use crate::yaml::{At, Mapping, Shape};

/// Certificates that are valid for fewer hours are not renewed by a timer.
const RENEWED_HOURS: u32 = 5 * 24;
/// kubeadm gives each node a /24 of the pod network: 254 addresses.
const MOST_PODS: u32 = 254;

section! {
    /// Kubernetes itself
    ///
    /// `spec.kubernetes`.
    #[check(rules(audit, ca, certificate_validity, ca_certificate_validity, auto_renew_certs, kubelet))]
    pub struct Kubernetes {
        /// Made by kubeadm, or components as services of systemd
        #[serde(rename = "type", skip_serializing_if = "is_default")]
        #[yaml("type")]
        pub kind: KubernetesKind,
        /// v1.34.4, or v1.34 for its newest known patch; the catalogue's default when left out
        #[yaml("version" as Option<KubernetesVersion>)]
        pub version: Option<String>,
        /// Name inside the cluster; metadata.name when left out
        #[yaml("clusterName" as Subdomain, default = "kubernetes".to_owned())]
        pub cluster_name: String,
        /// DNS domain of services
        #[yaml("dnsDomain" as Subdomain, default = "cluster.local".to_owned())]
        pub dns_domain: String,
        /// What kube-proxy writes its rules with
        #[yaml("proxyMode")]
        pub proxy_mode: ProxyMode,
        /// Pods of a node
        #[yaml("maxPods" as Number<1, MOST_PODS>, default = 110)]
        pub max_pods: u32,
        /// Feature gates of every component
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        #[yaml("featureGates" as Named<Gate, bool>)]
        pub feature_gates: BTreeMap<String, bool>,
        /// Further flags of kube-apiserver, without their dashes
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        #[yaml("apiServerArgs" as Named<Flag, Argument>)]
        pub api_server_args: BTreeMap<String, String>,
        /// Further flags of kube-controller-manager, without their dashes
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        #[yaml("controllerManagerArgs" as Named<Flag, Argument>)]
        pub controller_manager_args: BTreeMap<String, String>,
        /// Further flags of kube-scheduler, without their dashes
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        #[yaml("schedulerArgs" as Named<Flag, Argument>)]
        pub scheduler_args: BTreeMap<String, String>,
        /// Further names and addresses of the API server's certificate
        #[yaml("certSANs" as Vec<SubjectName>)]
        pub cert_sans: Vec<String>,
        /// A CA of your site for the cluster; kubeadm makes one when left out
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("ca")]
        pub ca: Option<ClusterCa>,
        /// How long certificates are valid that are made from now on, like 365d; when left out a year for kubeadm's, and at most five for others
        #[serde(rename = "certificateValidityPeriod", skip_serializing_if = "Option::is_none")]
        #[yaml("certificateValidityPeriod")]
        pub certificate_validity: Option<Validity>,
        /// How long CAs are valid that are made from now on; ten years when left out
        #[serde(rename = "caCertificateValidityPeriod", skip_serializing_if = "Option::is_none")]
        #[yaml("caCertificateValidityPeriod")]
        pub ca_certificate_validity: Option<Validity>,
        /// Whether a timer renews the control plane's certificates
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        #[yaml("autoRenewCerts")]
        pub auto_renew_certs: bool,
        /// A DNS cache on every node; {} for its defaults, none when left out
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("nodelocaldns")]
        pub nodelocaldns: Option<NodeLocalDns>,
        /// The API server's audit log; {} for its defaults, none when left out
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("audit")]
        pub audit: Option<Audit>,
        /// Fields of KubeletConfiguration, merged over the defaults
        #[yaml("kubelet")]
        pub kubelet: Map<String, Value>,
        /// Fields of KubeProxyConfiguration, merged over the defaults
        #[yaml("kubeProxy")]
        pub kube_proxy: Map<String, Value>,
    }
}

fn rules(
    map: &Mapping<'_>,
    audit: Option<&Option<Audit>>,
    of_site: Option<&Option<ClusterCa>>,
    certificate: Option<&Option<Validity>>,
    ca: Option<&Option<Validity>>,
    renews: Option<&bool>,
    kubelet: Option<&Map<String, Value>>,
) -> Option<()> {
    super::flags::check(map, audit.is_some_and(Option::is_some));
    if of_site.and_then(Option::as_ref).is_some_and(ClusterCa::signs_elsewhere) {
        without_signer(map, renews, kubelet);
    }
    let certificate = certificate.copied().flatten().unwrap_or(Validity::OF_CERTIFICATES);
    let ca = ca.copied().flatten().unwrap_or(Validity::OF_AUTHORITIES);
    if renews == Some(&true)
        && certificate.hours() < RENEWED_HOURS
        && let Some(at) = map.get("certificateValidityPeriod")
    {
        at.bad(
            format!("certificates of {certificate} would end before a timer that looks once in a day has renewed them"),
            "give certificateValidityPeriod 5d or more, or leave autoRenewCerts out",
        );
    }
    if certificate > ca {
        let at = map.get("certificateValidityPeriod").or_else(|| map.get("caCertificateValidityPeriod"))?;
        at.bad(
            format!("certificates would be valid for {certificate}, and the CAs that sign them for {ca}"),
            "give certificateValidityPeriod and caCertificateValidityPeriod so that the CAs last longer",
        );
    }
    Some(())
}

/// Settings that need somebody in the cluster who signs certificates.
fn without_signer(map: &Mapping<'_>, renews: Option<&bool>, kubelet: Option<&Map<String, Value>>) {
    const WHY: &str = "the CA's key stays with your site (ca.certificatesFolder)";
    if renews == Some(&true)
        && let Some(at) = map.get("autoRenewCerts")
    {
        at.bad(
            format!("no timer can renew certificates: {WHY}"),
            "leave it out, and renew with `kubexm-install certs requests` and `certs renew`; or give ca.keyFrom",
        );
    }
    let of_kubelet = kubelet.and_then(|fields| fields.get("serverTLSBootstrap"));
    if of_kubelet == Some(&Value::Bool(true))
        && let Some(at) = map.get("kubelet")
    {
        at.bad(
            format!("serverTLSBootstrap: nobody signs what kubelets ask the cluster for: {WHY}"),
            "leave it out: kubelets sign their serving certificates themselves then; or give ca.keyFrom",
        );
    }
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

section! {
    /// A DNS cache on every node
    ///
    /// `spec.kubernetes.nodelocaldns`: it is asked before CoreDNS.
    pub struct NodeLocalDns {
        /// Link-local address that pods ask
        #[yaml("address", default = IpAddr::from([169, 254, 25, 10]))]
        pub address: IpAddr,
    }
}

section! {
    /// The API server's audit log
    ///
    /// `spec.kubernetes.audit`.
    pub struct Audit {
        /// A policy of your own (audit.k8s.io/v1), beside this file; it travels in the bundle
        ///
        /// Without it the default one, which leaves out noise.
        #[yaml("policyFile")]
        pub policy_file: Option<MaterialFile>,
        /// Where events are sent besides; nowhere when left out
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("webhook")]
        pub webhook: Option<AuditWebhook>,
        /// Days that old logs are kept
        #[yaml("maxAge" as Number<1, 36500>, default = 30)]
        pub max_age: u32,
        /// How many old logs are kept
        #[yaml("maxBackups" as Number<1, 10000>, default = 10)]
        pub max_backups: u32,
        /// Megabytes at which a new log is begun
        #[yaml("maxSize" as Number<1, 100_000>, default = 100)]
        pub max_size: u32,
    }
}

section! {
    /// A receiver of audit events
    ///
    /// `spec.kubernetes.audit.webhook`.
    pub struct AuditWebhook {
        /// Where the kubeconfig of the receiver is read from; it never travels in the bundle
        ///
        /// It names the receiver, and logs in there.
        #[serde(rename = "kubeconfigFrom")]
        #[yaml("kubeconfigFrom", required)]
        pub kubeconfig: SecretSource,
    }
}

impl Kubernetes {
    /// The defaults of the format for a cluster of this name.
    pub fn named(cluster: impl Into<String>) -> Self {
        Self { cluster_name: cluster.into(), ..Self::default() }
    }
}

/// A flag's value: a text, or a truth value as it is written.
struct Argument;

impl FieldType for Argument {
    type Value = String;

    const SHAPE: Shape = Shape::Either(&Shape::Text, &Shape::Bool);

    fn read(at: &At<'_>) -> Option<String> {
        match at.text_quiet().filter(|text| matches!(*text, "true" | "false")) {
            Some(text) => Some(text.to_owned()),
            None => String::read(at),
        }
    }

    fn show(value: &String) -> Option<Value> {
        String::show(value)
    }
}
