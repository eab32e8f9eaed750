//! `spec.kubernetes` and what it stands on: etcd, runtime, network.

use std::net::IpAddr;

use super::values::{self, Cidr};
use super::{each, maybe, or};
use crate::cluster::{Host, Kubernetes, Network, ProxyMode, Runtime};
use crate::yaml::{At, Keys, Mapping};

const KUBERNETES: Keys = Keys {
    known: &["type", "version", "clusterName", "dnsDomain", "proxyMode", "maxPods", "certSANs", "kubelet", "kubeProxy"],
    later: &[
        "featureGates",
        "apiServerArgs",
        "controllerManagerArgs",
        "schedulerArgs",
        "autoRenewCerts",
        "nodelocaldns",
        "audit",
    ],
};
const ETCD: Keys = Keys { known: &["type"], later: &["externalConfig", "dataDir", "quota", "snapshots", "backup"] };
const RUNTIME: Keys = Keys { known: &["type", "version"], later: &["dataDir", "extraConfig"] };
const NETWORK: Keys = Keys {
    known: &["plugin", "podCidr", "serviceCidr", "interface"],
    later: &["options", "flannel", "calico", "cilium", "kube-ovn", "hybridnet", "multus"],
};

/// kubeadm gives each node a /24 of the pod network: 254 addresses.
const MOST_PODS: u32 = 254;

pub(super) fn defaults(name: &str) -> Kubernetes {
    Kubernetes::named(name)
}

pub(super) fn default_network() -> Network {
    Network::default()
}

pub(super) fn kubernetes(at: &At<'_>, name: &str) -> Option<Kubernetes> {
    let map = at.mapping(&KUBERNETES)?;
    let default = defaults(name);
    let kind = or(map.get("type"), (), |at| at.one_of(&[("kubeadm", ())], &["kubexm"]));
    let version = maybe(map.get("version"), |at| at.parsed(values::kubernetes_version));
    let cluster_name = or(map.get("clusterName"), default.cluster_name, |at| at.parsed(values::subdomain));
    let dns_domain = or(map.get("dnsDomain"), default.dns_domain, |at| at.parsed(values::subdomain));
    let proxy_mode = or(map.get("proxyMode"), default.proxy_mode, |at| {
        at.one_of(&[("iptables", ProxyMode::Iptables), ("nftables", ProxyMode::Nftables)], &["ipvs"])
    });
    let max_pods = or(map.get("maxPods"), default.max_pods, |at| at.number(1..=MOST_PODS));
    let cert_sans = or(map.get("certSANs"), Vec::new(), |at| each(at, |item| item.parsed(values::san)));
    let kubelet = or(map.get("kubelet"), default.kubelet, raw);
    let kube_proxy = or(map.get("kubeProxy"), default.kube_proxy, raw);
    kind?;
    Some(Kubernetes {
        version: version?,
        cluster_name: cluster_name?,
        dns_domain: dns_domain?,
        proxy_mode: proxy_mode?,
        max_pods: max_pods?,
        cert_sans: cert_sans?,
        kubelet: kubelet?,
        kube_proxy: kube_proxy?,
        ..defaults(name)
    })
}

/// Component configuration of upstream's own format: kept as it is.
fn raw(at: &At<'_>) -> Option<serde_json::Map<String, serde_json::Value>> {
    at.open_mapping()?;
    match at.json() {
        serde_json::Value::Object(map) => Some(map),
        _ => None,
    }
}

pub(super) fn etcd(spec: &Mapping<'_>) {
    if let Some(map) = spec.get("etcd").and_then(|at| at.mapping(&ETCD))
        && let Some(at) = map.get("type")
    {
        at.one_of(&[("kubeadm", ())], &["kubexm", "external"]);
    }
}

pub(super) fn runtime(at: &At<'_>) -> Option<Runtime> {
    let map = at.mapping(&RUNTIME)?;
    let kind = or(map.get("type"), (), |at| at.one_of(&[("containerd", ())], &["docker", "cri-o", "isulad"]));
    let version = maybe(map.get("version"), |at| at.parsed(values::version));
    kind?;
    Some(Runtime { version: version?, ..Runtime::default() })
}

pub(super) fn network(spec: &Mapping<'_>, hosts: &[Host]) -> Option<Network> {
    let default = default_network();
    let map = match spec.get("network") {
        Some(at) => Some(at.mapping(&NETWORK)?),
        None => None,
    };
    let get = |key: &str| map.as_ref().and_then(|map| map.get(key));
    let plugin = or(get("plugin"), (), |at| {
        at.one_of(&[("flannel", ())], &["calico", "cilium", "kube-ovn", "hybridnet", "multus", "none"])
    });
    let pods = cidr(get("podCidr"), &default.pod_cidr, 8..=24);
    let services = cidr(get("serviceCidr"), &default.service_cidr, 12..=28);
    let interface = maybe(get("interface"), |at| at.parsed(values::interface));
    let ((pod_cidr, pods), (service_cidr, services)) = (pods?, services?);
    let at = get("serviceCidr").or_else(|| get("podCidr")).unwrap_or_else(|| spec.at().clone());
    if pods.overlaps(services) {
        at.bad(format!("the networks of pods ({pod_cidr}) and services ({service_cidr}) overlap"), "");
    }
    for host in hosts {
        if let Some(IpAddr::V4(address)) = host.node_ip()
            && (pods.holds(address) || services.holds(address))
        {
            at.bad(
                format!(
                    "host {:?} ({address}) is inside the network of pods ({pod_cidr}) or services ({service_cidr})",
                    host.name
                ),
                "choose networks that are used nowhere else",
            );
        }
    }
    plugin?;
    Some(Network { pod_cidr, service_cidr, interface: interface?, ..default })
}

fn cidr(found: Option<At<'_>>, default: &str, bits: std::ops::RangeInclusive<u32>) -> Option<(String, Cidr)> {
    let Some(at) = found else { return Some((default.to_owned(), Cidr::read(default).ok()?)) };
    if at.is_list() || at.text()?.contains([':', ',']) {
        at.not_built("one IPv4 network today");
        return None;
    }
    let cidr = at.parsed(Cidr::read)?;
    if !bits.contains(&cidr.bits()) {
        at.bad(format!("a prefix of /{} does not do", cidr.bits()), format!("/{} to /{}", bits.start(), bits.end()));
        return None;
    }
    Some((at.text()?.to_owned(), cidr))
}

/// A TCP port.
pub(super) fn port(at: &At<'_>) -> Option<u16> {
    at.number(1..=u32::from(u16::MAX)).and_then(|number| u16::try_from(number).ok())
}
