//! Checks across parts of the file. A part that could not be read is left out: its own problems were reported.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::roles;

use crate::cluster::{
    API_PORT, BALANCER_STATUS_PORT, Bundle, Etcd, EtcdKind, ExternalKind, Host, InternalKind, Kubernetes,
    KubernetesKind, LoadBalancer, LoadBalancerMode, Network, ProxyMode, Registry, RoleGroups, Runtime, Storage,
    data_folder::holds, overlap,
};
use crate::yaml::{At, Mapping, ProblemKind};
use crate::{counted, counted_of};

/// The parts as they were read.
pub(super) struct Parts<'p> {
    pub(super) hosts: &'p [Host],
    pub(super) kubernetes: Option<&'p Kubernetes>,
    pub(super) etcd: Option<&'p Etcd>,
    pub(super) network: Option<&'p Network>,
    pub(super) load_balancer: Option<&'p LoadBalancer>,
    pub(super) registry: Option<&'p Registry>,
    pub(super) runtime: Option<&'p Runtime>,
    pub(super) storage: Option<&'p Storage>,
    pub(super) bundle: Option<&'p Bundle>,
}

/// All rules; fills the role etcd, which depends on who runs it.
pub(super) fn check(spec: &Mapping<'_>, parts: &Parts<'_>, roles: Option<&mut RoleGroups>) {
    if let Some(network) = parts.network {
        networks(spec, parts, network);
    }
    if let Some(roles) = roles {
        if let Some(etcd) = parts.etcd {
            etcd_role(spec, etcd, roles);
        }
        if let Some(load_balancer) = parts.load_balancer {
            load_balancer_role(spec, parts.hosts, load_balancer, roles);
        }
    }
    if let (Some(kubernetes), Some(network)) = (parts.kubernetes, parts.network)
        && network.replaces_kube_proxy()
    {
        without_kube_proxy(spec, kubernetes);
    }
    data_folders(spec, parts);
    roles::script_hosts(spec);
    if let (Some(kubernetes), Some(etcd)) = (parts.kubernetes, parts.etcd)
        && kubernetes.kind == KubernetesKind::Kubexm
        && etcd.kind == EtcdKind::Kubeadm
    {
        place(spec, &["etcd", "type"]).bad(
            "an etcd of kubeadm needs a cluster of kubeadm, and spec.kubernetes.type is kubexm",
            "write etcd: {type: kubexm}, or external",
        );
    }
    if let Some(bundle) = parts.bundle {
        platforms(spec, parts.hosts, bundle);
    }
}

/// Settings of a kube-proxy that there is not.
fn without_kube_proxy(spec: &Mapping<'_>, kubernetes: &Kubernetes) {
    const WHY: &str = "there is no kube-proxy: Cilium does its work (spec.network.options.kubeProxyReplacement)";
    let written = |key: &str, is_set: bool| {
        if is_set {
            let hint = "leave it out, or set kubeProxyReplacement to false";
            place(spec, &["kubernetes", key]).bad(format!("{key} sets something of kube-proxy, and {WHY}"), hint);
        }
    };
    written("proxyMode", kubernetes.proxy_mode != ProxyMode::default());
    written("kubeProxy", !kubernetes.kube_proxy.is_empty());
}

/// Each folder of data belongs to one alone: a reset removes all that is in it.
fn data_folders(spec: &Mapping<'_>, parts: &Parts<'_>) {
    // A folder that is another one's usual folder is refused where it is named.
    let etcd = parts.etcd.filter(|etcd| etcd.kind != EtcdKind::External && etcd.has_own_folder());
    let etcd = etcd.map(|etcd| etcd.data_dir.as_str());
    let registry = parts.registry.filter(|registry| registry.kind.has_data());
    let registry = registry.map(|registry| registry.data_dir.as_str());
    let runtime = parts.runtime.and_then(|runtime| runtime.own_folder());
    let volumes = parts.storage.and_then(|storage| storage.open_ebs.as_ref()).map(|it| it.base_path.as_str());
    let all: [(&[&str], _); 4] = [
        (&["storage", "openebs", "basePath"], volumes),
        (&["etcd", "dataDir"], etcd),
        (&["runtime", "dataDir"], runtime),
        (&["registry", "dataDir"], registry),
    ];
    for (index, (field, folder)) in all.iter().enumerate() {
        for (other_field, other) in all.iter().skip(index + 1) {
            if let (Some(one), Some(other)) = (folder, other)
                && (holds(one, other) || holds(other, one))
            {
                let other_field = other_field.join(".");
                place(spec, field).bad(
                    format!("{one}, and {other} of spec.{other_field}, are the same or in each other"),
                    "give each a folder of its own",
                );
            }
        }
    }
}

/// The place of a path, or of the last part of it that is there.
fn place<'a>(spec: &Mapping<'a>, path: &[&str]) -> At<'a> {
    let mut at = spec.at().clone();
    for key in path {
        match at.open_mapping_quiet().and_then(|map| map.get(key)) {
            Some(next) => at = next,
            None => break,
        }
    }
    at
}

/// A network with what it is called.
struct Named {
    what: &'static str,
    key: &'static str,
    cidr: IpNet,
}

impl Named {
    const fn is_v6(&self) -> bool {
        matches!(self.cidr, IpNet::V6(_))
    }
}

fn networks(spec: &Mapping<'_>, parts: &Parts<'_>, network: &Network) {
    let pods: Vec<_> = network.pod_cidrs().map(|cidr| Named { what: "pods", key: "podCidr", cidr }).collect();
    let services: Vec<_> =
        network.service_cidrs().map(|cidr| Named { what: "services", key: "serviceCidr", cidr }).collect();
    for pod in &pods {
        for service in services.iter().filter(|service| overlap(service.cidr, pod.cidr)) {
            let (pod, service) = (pod.cidr, service.cidr);
            written(spec, "serviceCidr", "podCidr")
                .bad(format!("the networks of pods ({pod}) and services ({service}) overlap"), "");
        }
    }
    if let Some(service) = services.iter().find(|service| pods.iter().all(|pod| pod.is_v6() != service.is_v6())) {
        let family = if service.is_v6() { "IPv6" } else { "IPv4" };
        let hint = "give podCidr a network of that family too, or leave it out of serviceCidr";
        written(spec, "serviceCidr", "podCidr").bad(format!("services have {family} and pods have none"), hint);
    }
    if pods.first().zip(services.first()).is_some_and(|(pod, service)| pod.is_v6() != service.is_v6())
        && pods.len() + services.len() > 2
    {
        written(spec, "serviceCidr", "podCidr")
            .bad("pods and services begin with different families", "give both lists in the same order");
    }
    for all in [&pods, &services] {
        inside(spec, parts, all);
    }
    nodes(spec, parts.hosts, &pods);
}

/// Hosts, the load balancer and the DNS cache are outside our networks.
fn inside(spec: &Mapping<'_>, parts: &Parts<'_>, networks: &[Named]) {
    for network in networks {
        for host in parts.hosts {
            if let Some(address) = host.addresses().find(|address| network.cidr.contains(address)) {
                let (name, what, text) = (&host.name, network.what, network.cidr);
                written(spec, network.key, "podCidr").bad(
                    format!("host {name:?} ({address}) is inside the network of {what} ({text})"),
                    "choose networks that are used nowhere else",
                );
            }
        }
        let vip = parts.load_balancer.and_then(|load_balancer| load_balancer.mode.vip());
        let cache = parts.kubernetes.and_then(|kubernetes| kubernetes.nodelocaldns.as_ref()).map(|dns| dns.address);
        let others = [(vip, &["loadBalancer", "vip"]), (cache, &["kubernetes", "nodelocaldns"])];
        for (address, path) in others.into_iter().filter_map(|(address, path)| Some((address?, path))) {
            if network.cidr.contains(&address) {
                let (what, text) = (network.what, network.cidr);
                place(spec, path).bad(
                    format!("{address} is inside the network of {what} ({text})"),
                    "choose an address outside the cluster's networks",
                );
            }
        }
    }
}

/// kubeadm gives each node a /24 (IPv6: a /64) of the pods' network.
fn nodes(spec: &Mapping<'_>, hosts: &[Host], pods: &[Named]) {
    for pod in pods {
        let own = if pod.is_v6() { 64 } else { 24 };
        let room = 1_usize.checked_shl(own - u32::from(pod.cidr.prefix_len())).unwrap_or(usize::MAX);
        if hosts.len() > room {
            let (text, hosts) = (pod.cidr, counted_of(hosts, "host"));
            let nodes = counted(room as u64, "node");
            place(spec, &["network", "podCidr"])
                .bad(format!("{text} has a /{own} for {nodes}, and there are {hosts}"), "choose a shorter prefix");
        }
    }
}

/// The place of one key of `spec.network`, or of the other where the one is left out.
fn written<'a>(spec: &Mapping<'a>, key: &str, other: &str) -> At<'a> {
    let network = spec.get("network");
    let find = |key: &str| network.as_ref()?.open_mapping_quiet()?.get(key);
    find(key).or_else(|| find(other)).unwrap_or_else(|| network.clone().unwrap_or_else(|| spec.at().clone()))
}

fn etcd_role(spec: &Mapping<'_>, etcd: &Etcd, roles: &mut RoleGroups) {
    let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
    let at = || place(spec, &["roleGroups", "etcd"]);
    match etcd.kind {
        EtcdKind::External if !roles.etcd.is_empty() => {
            at().bad("your own etcd has its own hosts, and these have the role etcd", "leave the role out");
        }
        EtcdKind::External => {}
        EtcdKind::Kubeadm | EtcdKind::Kubexm if roles.etcd.is_empty() => roles.etcd.clone_from(&roles.control_plane),
        EtcdKind::Kubeadm if set(&roles.etcd) != set(&roles.control_plane) => {
            at().bad(
                "with etcd type kubeadm the members are the control planes",
                "leave etcd out, or name the same hosts",
            );
        }
        EtcdKind::Kubeadm | EtcdKind::Kubexm => {}
    }
}

fn load_balancer_role(spec: &Mapping<'_>, hosts: &[Host], load_balancer: &LoadBalancer, roles: &RoleGroups) {
    let at = place(spec, &["loadBalancer"]);
    let ours = match &load_balancer.mode {
        LoadBalancerMode::External { kind: ExternalKind::KubexmKh | ExternalKind::KubexmKn, vip, port, .. } => {
            if !hosts.is_empty() && roles.load_balancer.is_empty() {
                at.fail(
                    ProblemKind::Missing,
                    "no host has the role loadbalancer, where keepalived would run",
                    "roleGroups: {loadbalancer: [NAME, NAME]}",
                );
            }
            let control_planes: BTreeSet<&String> = roles.control_plane.iter().collect();
            let both = roles.load_balancer.iter().find(|name| control_planes.contains(name));
            if let Some(name) = both.filter(|_| *port == API_PORT) {
                place(spec, &["loadBalancer", "port"]).bad(
                    format!("{name:?} is a control plane, whose API server has port {API_PORT} itself"),
                    "choose another port, or other hosts for the role loadbalancer",
                );
            }
            if *port == BALANCER_STATUS_PORT {
                place(spec, &["loadBalancer", "port"])
                    .bad(format!("{port} is the port on which the proxy answers its own host"), "choose another port");
            }
            Some(*vip)
        }
        LoadBalancerMode::Internal { kind: InternalKind::KubeVip, vip, .. } => *vip,
        LoadBalancerMode::None | LoadBalancerMode::External { .. } | LoadBalancerMode::Internal { .. } => None,
    };
    let keepalived = matches!(
        &load_balancer.mode,
        LoadBalancerMode::External { kind: ExternalKind::KubexmKh | ExternalKind::KubexmKn, .. }
    );
    if !keepalived && !roles.load_balancer.is_empty() {
        place(spec, &["roleGroups", "loadbalancer"]).bad(
            "hosts have the role loadbalancer, and kubexm runs nothing there",
            "write loadBalancer: {mode: external, external: {type: kubexm-kh}, vip: ADDRESS}, or leave the role out",
        );
    }
    if let Some(vip) = ours {
        moving(spec, hosts, vip);
    }
}

/// An address that we move from host to host is no host's own.
fn moving(spec: &Mapping<'_>, hosts: &[Host], vip: IpAddr) {
    if let Some(host) = hosts.iter().find(|host| host.addresses().any(|address| address == vip)) {
        place(spec, &["loadBalancer", "vip"]).bad(
            format!("{vip} is the address of host {:?}, and moves from host to host", host.name),
            "choose an unused address",
        );
    }
}

fn platforms(spec: &Mapping<'_>, hosts: &[Host], bundle: &Bundle) {
    let carried =
        |host: &&Host| host.arch.is_none_or(|arch| bundle.platforms.iter().any(|platform| platform.arch == arch));
    for host in hosts.iter().filter(|host| !carried(host)) {
        let arch = host.arch.map_or("", |arch| arch.as_str());
        place(spec, &["bundle", "platforms"]).bad(
            format!("host {:?} is {arch}, and the bundle has nothing for linux/{arch}", host.name),
            format!("add linux/{arch} to spec.bundle.platforms"),
        );
    }
}
