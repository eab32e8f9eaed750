//! `spec.kubernetes`.

use std::collections::BTreeMap;

use super::take::{each, maybe, named, or, raw};
use super::{addresses, secret, values};
use crate::cluster::{Audit, AuditWebhook, Keyword, Kubernetes, KubernetesKind, MaterialFile, NodeLocalDns, ProxyMode};
use crate::yaml::{At, Field, Object, Shape};

const ARGS: Shape = Shape::Named(&Shape::Either(&Shape::Text, &Shape::Bool));
/// kubeadm gives each node a /24 of the pod network: 254 addresses.
const MOST_PODS: u32 = 254;

/// `spec.kubernetes`.
pub(super) const KUBERNETES: Object = Object::new(
    "Kubernetes itself",
    &[
        Field::new(
            "type",
            Shape::Words(KubernetesKind::WORDS),
            "Made by kubeadm, or components as services of systemd",
        ),
        Field::new(
            "version",
            Shape::Form("^v?[0-9]+\\.[0-9]+(\\.[0-9]+(-[0-9A-Za-z.+-]+)?)?$"),
            "v1.34.4, or v1.34 for its newest known patch; the catalogue's default when left out",
        ),
        Field::new("clusterName", Shape::Text, "Name inside the cluster; metadata.name when left out"),
        Field::new("dnsDomain", Shape::Text, "DNS domain of services"),
        Field::new("proxyMode", Shape::Words(ProxyMode::WORDS), "What kube-proxy writes its rules with"),
        Field::new("maxPods", Shape::Number(1, MOST_PODS), "Pods of a node"),
        Field::new("featureGates", Shape::Named(&Shape::Bool), "Feature gates of every component"),
        Field::new("apiServerArgs", ARGS, "Further flags of kube-apiserver, without their dashes"),
        Field::new("controllerManagerArgs", ARGS, "Further flags of kube-controller-manager, without their dashes"),
        Field::new("schedulerArgs", ARGS, "Further flags of kube-scheduler, without their dashes"),
        Field::new(
            "certSANs",
            Shape::List(&Shape::Text),
            "Further names and addresses of the API server's certificate",
        ),
        Field::new("autoRenewCerts", Shape::Bool, "Whether a timer renews the control plane's certificates"),
        Field::new(
            "nodelocaldns",
            Shape::Mapping(&NODELOCALDNS),
            "A DNS cache on every node; {} for its defaults, none when left out",
        ),
        Field::new(
            "audit",
            Shape::Mapping(&AUDIT),
            "The API server's audit log; {} for its defaults, none when left out",
        ),
        Field::new("kubelet", Shape::Raw, "Fields of KubeletConfiguration, merged over the defaults"),
        Field::new("kubeProxy", Shape::Raw, "Fields of KubeProxyConfiguration, merged over the defaults"),
    ],
);

/// `spec.kubernetes.nodelocaldns`.
pub(super) const NODELOCALDNS: Object =
    Object::new("A DNS cache on every node", &[Field::new("address", Shape::Text, "Link-local address that pods ask")]);

/// `spec.kubernetes.audit`.
pub(super) const AUDIT: Object = Object::new(
    "The API server's audit log",
    &[
        Field::new(
            "policyFile",
            Shape::Text,
            "A policy of your own (audit.k8s.io/v1), beside this file; it travels in the bundle",
        ),
        Field::new("webhook", Shape::Mapping(&WEBHOOK), "Where events are sent besides; nowhere when left out"),
        Field::new("maxAge", Shape::Number(1, 36500), "Days that old logs are kept"),
        Field::new("maxBackups", Shape::Number(1, 10000), "How many old logs are kept"),
        Field::new("maxSize", Shape::Number(1, 100_000), "Megabytes at which a new log is begun"),
    ],
);

/// `spec.kubernetes.audit.webhook`.
pub(super) const WEBHOOK: Object = Object::new(
    "A receiver of audit events",
    &[Field::needed(
        "kubeconfigFrom",
        Shape::Mapping(&secret::SOURCE),
        "Where the kubeconfig of the receiver is read from; it never travels in the bundle",
    )],
);

pub(super) fn kubernetes(at: &At<'_>, name: &str) -> Option<Kubernetes> {
    let map = at.mapping(&KUBERNETES)?;
    let default = Kubernetes::named(name);
    let arguments = |key: &str| or(map.get(key), BTreeMap::new(), |at| named(at, values::flag, argument));
    let kind = or(map.get("type"), default.kind, |at| at.word());
    let version = maybe(map.get("version"), |at| at.parsed(values::kubernetes_version));
    let cluster_name = or(map.get("clusterName"), default.cluster_name, |at| at.parsed(values::subdomain));
    let dns_domain = or(map.get("dnsDomain"), default.dns_domain, |at| at.parsed(values::subdomain));
    let proxy_mode = or(map.get("proxyMode"), default.proxy_mode, |at| at.word());
    let max_pods = or(map.get("maxPods"), default.max_pods, |at| at.number(1..=MOST_PODS));
    let feature_gates = or(map.get("featureGates"), BTreeMap::new(), |at| named(at, values::gate, |at| at.boolean()));
    let (api_server_args, controller_manager_args, scheduler_args) =
        (arguments("apiServerArgs"), arguments("controllerManagerArgs"), arguments("schedulerArgs"));
    let cert_sans = or(map.get("certSANs"), Vec::new(), |at| each(at, |item| item.parsed(addresses::san)));
    let auto_renew_certs = or(map.get("autoRenewCerts"), false, |at| at.boolean());
    let nodelocaldns = maybe(map.get("nodelocaldns"), node_local_dns);
    let audit = maybe(map.get("audit"), audit);
    let kubelet = or(map.get("kubelet"), default.kubelet, raw);
    let kube_proxy = or(map.get("kubeProxy"), default.kube_proxy, raw);
    Some(Kubernetes {
        kind: kind?,
        version: version?,
        cluster_name: cluster_name?,
        dns_domain: dns_domain?,
        proxy_mode: proxy_mode?,
        max_pods: max_pods?,
        feature_gates: feature_gates?,
        api_server_args: api_server_args?,
        controller_manager_args: controller_manager_args?,
        scheduler_args: scheduler_args?,
        cert_sans: cert_sans?,
        auto_renew_certs: auto_renew_certs?,
        nodelocaldns: nodelocaldns?,
        audit: audit?,
        kubelet: kubelet?,
        kube_proxy: kube_proxy?,
    })
}

/// A flag's value: a text, or a truth value as it is written.
fn argument(at: &At<'_>) -> Option<String> {
    match at.text_quiet().filter(|text| matches!(*text, "true" | "false")) {
        Some(text) => Some(text.to_owned()),
        None => at.text().map(str::to_owned),
    }
}

fn node_local_dns(at: &At<'_>) -> Option<NodeLocalDns> {
    let map = at.mapping(&NODELOCALDNS)?;
    let address = or(map.get("address"), NodeLocalDns::default().address, |at| at.parsed(addresses::ip));
    Some(NodeLocalDns { address: address? })
}

fn audit(at: &At<'_>) -> Option<Audit> {
    let map = at.mapping(&AUDIT)?;
    let default = Audit::default();
    let policy_file = maybe(map.get("policyFile"), |at| at.parsed(MaterialFile::parse));
    let webhook = maybe(map.get("webhook"), webhook);
    let max_age = or(map.get("maxAge"), default.max_age, |at| at.number(1..=36500));
    let max_backups = or(map.get("maxBackups"), default.max_backups, |at| at.number(1..=10000));
    let max_size = or(map.get("maxSize"), default.max_size, |at| at.number(1..=100_000));
    Some(Audit {
        policy_file: policy_file?,
        webhook: webhook?,
        max_age: max_age?,
        max_backups: max_backups?,
        max_size: max_size?,
    })
}

fn webhook(at: &At<'_>) -> Option<AuditWebhook> {
    let map = at.mapping(&WEBHOOK)?;
    Some(AuditWebhook { kubeconfig: secret::source(&map.need("kubeconfigFrom")?)? })
}
