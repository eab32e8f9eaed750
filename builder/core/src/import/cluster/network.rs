//! The pods' network, the control plane's address, and names.

use super::super::fields::{carry, never, one_or_more, same};
use super::super::source::Place;
use super::super::yaml::{Map, Yaml};

pub(super) fn network(from: &Place<'_>) -> Map {
    let mut network = Map::default();
    let plugin = from.get("plugin").and_then(|at| at.text());
    if let Some(at) = from.get("plugin") {
        let ours = match plugin {
            Some("kubeovn" | "kube-ovn") => "kube-ovn",
            Some(known @ ("calico" | "flannel" | "cilium" | "hybridnet" | "none")) => known,
            _ => {
                at.leave("there is no such plugin here: none is written, and you install the network yourself");
                "none"
            }
        };
        network.set("plugin", ours);
        network.came_from("plugin", at.origin());
    }
    for (old, new) in [("kubePodsCIDR", "podCidr"), ("kubeServiceCIDR", "serviceCidr")] {
        carry(from, old, &mut network, new, |at| at.text().map(one_or_more));
    }
    if let Some(at) = from.at(&["multusCNI", "enabled"])
        && at.is_true()
    {
        network.set("multus", true);
        network.came_from("multus", at.origin());
    }
    for name in ["calico", "flannel", "kubeovn", "cilium", "hybridnet"] {
        let Some(at) = from.get(name) else { continue };
        match plugin.unwrap_or("calico") == name {
            true => at.leave("options of the plugin have other names here: write spec.network.options"),
            false => at.leave("these are options of another plugin than the cluster's"),
        }
    }
    network
}

/// KubeKey's own word for "no address".
const NOWHERE: &str = "127.0.0.1";

pub(super) fn load_balancer(from: &Place<'_>) -> Map {
    let (mut to, mut kind) = (Map::default(), Map::default());
    let vip = from.get("address").filter(|at| at.text() != Some(NOWHERE));
    let mode = match from.get("internalLoadbalancer").map(|at| (at.text(), at)) {
        Some((Some(internal @ ("haproxy" | "kube-vip")), at)) => {
            kind.set("type", internal);
            Some(("internal", at))
        }
        Some((_, at)) => {
            at.leave("it is neither haproxy nor kube-vip");
            None
        }
        None => vip.clone().map(|at| {
            kind.set("type", "external");
            ("external", at)
        }),
    };
    if let Some((mode, at)) = &mode {
        to.set("mode", *mode);
        to.set(mode, kind);
        to.came_from("mode", at.origin());
        to.came_from(mode, at.origin());
    }
    if let (Some(at), true) = (vip, mode.is_some()) {
        to.maybe("vip", at.text());
        to.came_from("vip", at.origin());
    }
    carry(from, "port", &mut to, "port", |at| {
        let port = at.number().filter(|port| *port != 6443)?;
        if mode.is_none() {
            at.leave("without a load balancer the API server is asked on its own port, 6443");
            return None;
        }
        Some(Yaml::from(port))
    });
    same(from, &mut to, &[("domain", "domain")]);
    never(from, &["externalDNS"], "the name is written into /etc/hosts of every node all the same");
    if let Some(at) = from.at(&["kubevip", "mode"])
        && !matches!(at.text(), Some("ARP" | "arp"))
    {
        at.leave("kube-vip announces its address by ARP only");
    }
    to
}

/// `spec.dns`: lines for /etc/hosts are `spec.extra.hosts`.
pub(super) fn dns(from: &Place<'_>) -> Map {
    let mut extra = Map::default();
    carry(from, "nodeEtcHosts", &mut extra, "hosts", |at| {
        let mut hosts: Vec<Map> = Vec::new();
        for line in at.text()?.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(address) = words.next() else { continue };
            for domain in words {
                let mut host = Map { origin: Some(at.origin()), ..Map::default() };
                host.set("domain", domain);
                host.set("address", address);
                hosts.push(host);
            }
        }
        Some(hosts.into())
    });
    if let Some(at) = from.get("dnsEtcHosts") {
        at.leave("it is for CoreDNS, whose configuration is this program's own; spec.extra.hosts is for nodes");
    }
    for name in ["coredns", "nodelocaldns"] {
        if let Some(at) = from.get(name) {
            at.leave("the configuration of CoreDNS and of the cache before it is this program's own");
        }
    }
    extra
}
