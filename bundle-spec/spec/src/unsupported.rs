//! What of a cluster no recipe installs yet. The builder makes a bundle of it and warns; the installer refuses it before it
//! touches a host.
//!
//! It is here, and not beside the recipes, because both programs report it. A test of the recipes checks it: a field
//! either changes their plan or is named here.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use crate::cluster::{
    API_PORT, Cluster, Etcd, EtcdKind, Host, Keyword, Kubernetes, KubernetesKind, LoadBalancerMode, Network,
    NetworkPlugin, OsPackages, ProxyMode, Registry, RegistryKind, Runtime, RuntimeKind, Selinux, System,
};
use crate::names;

/// Something that the format has and no recipe installs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unsupported {
    /// `spec.network.plugin`.
    pub path: String,
    /// The value in the file; empty where it is more than a word.
    pub value: String,
    /// What can be done instead.
    pub instead: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, value, instead } = self;
        match value.as_str() {
            "" => write!(f, "{path}: this is known, and not supported yet ({instead})"),
            value => write!(f, "{path}: {value:?} is known, and not supported yet ({instead})"),
        }
    }
}

/// Everything of a cluster that no recipe installs yet, in the order of the format.
pub fn check(cluster: &Cluster) -> Vec<Unsupported> {
    let mut all = All::default();
    for (index, host) in cluster.hosts.iter().enumerate() {
        all.host(&format!("spec.hosts[{index}]"), host, cluster.network.has_two_stacks());
    }
    all.system(&cluster.system, &cluster.bundle.os);
    for (index, host) in cluster.extra.hosts.iter().enumerate() {
        all.v4(&format!("spec.extra.hosts[{index}].address"), host.address);
    }
    for (index, server) in cluster.extra.resolves.iter().enumerate() {
        all.v4(&format!("spec.extra.resolves[{index}].address"), *server);
    }
    if let Some(kubernetes) = &cluster.kubernetes {
        all.kubernetes(kubernetes);
        all.dns_cache(cluster, kubernetes);
        let prefix = kubernetes.api_server_args.get(ETCD_PREFIX).filter(|_| cluster.etcd.kind == EtcdKind::External);
        let path = format!("spec.kubernetes.apiServerArgs.{ETCD_PREFIX}");
        all.add(
            prefix.is_some(),
            &path,
            prefix.map(ToString::to_string).unwrap_or_default(),
            "write spec.etcd.externalConfig.prefix",
        );
    }
    all.etcd(&cluster.etcd);
    all.runtime(&cluster.runtime);
    all.cri_o(cluster);
    all.docker(cluster);
    all.isulad(cluster);
    all.stacks(&cluster.network);
    all.kube_ovn(cluster);
    all.hybridnet(cluster);
    all.load_balancer(&cluster.load_balancer.mode);
    all.registry(&cluster.registry);
    all.harbor(cluster);
    all.logins(cluster);
    all.storage(cluster);
    all.0
}

/// Where preflight looks for keys of others, so it is written in one place.
const ETCD_PREFIX: &str = "etcd-prefix";
const LEAVE_OUT: &str = "leave it out";
const NAME_SYSTEMS: &str = "name the hosts' systems in spec.bundle.os, so that the bundle has their packages";
const V4: &str = "IPv4 only today";

#[derive(Default)]
struct All(Vec<Unsupported>);

impl All {
    fn add(&mut self, found: bool, path: &str, value: impl Into<String>, instead: &str) {
        if found {
            self.0.push(Unsupported { path: path.to_owned(), value: value.into(), instead: instead.to_owned() });
        }
    }

    /// A choice of which some values are supported.
    fn word<T: Keyword + PartialEq>(&mut self, path: &str, word: T, built: &[T]) {
        let words: Vec<&str> = built.iter().map(|word| word.word()).collect();
        self.add(!built.contains(&word), path, word.word(), &format!("supported today: {}", words.join(", ")));
    }

    fn v4(&mut self, path: &str, address: IpAddr) {
        self.add(address.is_ipv6(), path, address.to_string(), V4);
    }

    fn host(&mut self, path: &str, host: &Host, two_stacks: bool) {
        let v6 = |text: &str| text.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6());
        self.add(v6(&host.address), &format!("{path}.address"), &host.address, V4);
        self.add(!host.more_addresses.is_empty(), &format!("{path}.address"), "", "give one address");
        if let Some(address) = host.internal_address {
            self.v4(&format!("{path}.internalAddress"), address);
        }
        let second = !host.more_internal_addresses.is_empty() && !two_stacks;
        let instead = "give one address, or networks of both families in spec.network.podCidr and serviceCidr";
        self.add(second, &format!("{path}.internalAddress"), "", instead);
        for (index, jump) in host.via.iter().enumerate() {
            self.add(v6(&jump.address), &format!("{path}.via[{index}].address"), &jump.address, V4);
        }
    }

    fn system(&mut self, system: &System, systems: &[String]) {
        // Packages come from the bundle, which has those of the systems that it was built for.
        let nowhere = |asked: bool| asked && systems.is_empty();
        self.add(nowhere(!system.rpms.is_empty()), "spec.system.rpms", "", NAME_SYSTEMS);
        self.add(nowhere(!system.debs.is_empty()), "spec.system.debs", "", NAME_SYSTEMS);
        let full = system.os_packages == OsPackages::Full;
        self.add(nowhere(full), "spec.system.osPackages", system.os_packages.word(), NAME_SYSTEMS);
    }

    fn kubernetes(&mut self, kubernetes: &Kubernetes) {
        let at = |key: &str| format!("spec.kubernetes.{key}");
        self.word(&at("type"), kubernetes.kind, &[KubernetesKind::Kubeadm]);
    }

    /// What has not run on hosts with a DNS cache on every node, and where it cannot answer on the address of cluster DNS: with ipvs that is
    /// kube-proxy's own, and Cilium sees packets before the node does.
    fn dns_cache(&mut self, cluster: &Cluster, kubernetes: &Kubernetes) {
        let Some(cache) = &kubernetes.nodelocaldns else { return };
        let path = "spec.kubernetes.nodelocaldns";
        self.v4(&format!("{path}.address"), cache.address);
        let mode = kubernetes.proxy_mode;
        let instead = format!("it needs proxyMode {} today, and this is {mode}", ProxyMode::Iptables);
        self.add(mode != ProxyMode::Iptables, path, "", &instead);
        let plugin = cluster.network.plugin;
        let instead = format!("with plugin {} today, and this is {plugin}", NetworkPlugin::Flannel);
        self.add(plugin != NetworkPlugin::Flannel, path, "", &instead);
        let runtime = cluster.runtime.kind;
        let instead = format!("with runtime {} today, and this is {runtime}", RuntimeKind::Containerd);
        self.add(runtime != RuntimeKind::Containerd, path, "", &instead);
    }

    fn etcd(&mut self, etcd: &Etcd) {
        let plain = |endpoint: &&String| endpoint.starts_with("http://");
        let plain = etcd.external.iter().flat_map(|external| &external.endpoints).find(plain);
        let instead = "give the members certificates, and https:// here";
        self.add(plain.is_some(), "spec.etcd.externalConfig.endpoints", plain.cloned().unwrap_or_default(), instead);
    }

    fn runtime(&mut self, runtime: &Runtime) {
        self.word(
            "spec.runtime.type",
            runtime.kind,
            &[RuntimeKind::Containerd, RuntimeKind::Docker, RuntimeKind::CriO, RuntimeKind::Isulad],
        );
    }

    /// What has not run on hosts with it.
    fn cri_o(&mut self, cluster: &Cluster) {
        if cluster.runtime.kind != RuntimeKind::CriO {
            return;
        }
        let kind = cluster.registry.kind;
        let instead = match kind {
            RegistryKind::None => "CRI-O imports no images: name a registry, embedded or registry",
            _ => "with CRI-O today: embedded, registry",
        };
        let known = [RegistryKind::Embedded, RegistryKind::Registry].contains(&kind);
        self.add(!known, "spec.registry.type", kind.word(), instead);
        self.add(cluster.runtime.own_folder().is_some(), "spec.runtime.dataDir", "", LEAVE_OUT);
        let instead = "put a file of your own into /etc/crio/crio.conf.d of the hosts, which kubexm-install keeps";
        self.add(!cluster.runtime.extra_config.is_empty(), "spec.runtime.extraConfig", "", instead);
        let plugin = cluster.network.plugin;
        let unknown = ![NetworkPlugin::Flannel, NetworkPlugin::None].contains(&plugin);
        self.add(unknown, "spec.network.plugin", plugin.word(), "with CRI-O today: flannel, none");
        self.add(cluster.network.multus, "spec.network.multus", "true", LEAVE_OUT);
    }

    /// What has not run on hosts with it.
    fn docker(&mut self, cluster: &Cluster) {
        if cluster.runtime.kind != RuntimeKind::Docker {
            return;
        }
        let kind = cluster.registry.kind;
        let known = [RegistryKind::Embedded, RegistryKind::None].contains(&kind);
        self.add(!known, "spec.registry.type", kind.word(), "with docker today: embedded, none");
        let instead = "leave it out: nodes with docker have every image of the bundle, and pull none of them";
        self.add(!cluster.registry.auths.is_empty(), "spec.registry.auths", "", instead);
        self.add(cluster.runtime.own_folder().is_some(), "spec.runtime.dataDir", "", LEAVE_OUT);
        self.add(!cluster.runtime.extra_config.is_empty(), "spec.runtime.extraConfig", "", LEAVE_OUT);
        let network = &cluster.network;
        let unknown = ![NetworkPlugin::Flannel, NetworkPlugin::None].contains(&network.plugin);
        self.add(unknown, "spec.network.plugin", network.plugin.word(), "with docker today: flannel, none");
        self.add(network.multus, "spec.network.multus", "true", LEAVE_OUT);
        let instead = "with docker today: one network, of IPv4";
        self.add(network.has_two_stacks(), "spec.network.podCidr", "", instead);
    }

    /// What is not built with it. Which systems have it is known to the catalogue.
    fn isulad(&mut self, cluster: &Cluster) {
        let Runtime { kind: RuntimeKind::Isulad, version, extra_config, .. } = &cluster.runtime else { return };
        self.add(cluster.bundle.os.is_empty(), "spec.bundle.os", "", NAME_SYSTEMS);
        let packages = cluster.system.os_packages;
        let instead = "leave it out: iSulad is a package of the hosts' system, and comes with the bundle";
        self.add(packages == OsPackages::None, "spec.system.osPackages", packages.word(), instead);
        let instead = "leave it out: iSulad has the version of the packages of the systems in spec.bundle.os";
        self.add(version.is_some(), "spec.runtime.version", version.clone().unwrap_or_default(), instead);
        self.add(cluster.runtime.own_folder().is_some(), "spec.runtime.dataDir", "", LEAVE_OUT);
        self.add(!extra_config.is_empty(), "spec.runtime.extraConfig", "", LEAVE_OUT);
        let selinux = cluster.system.selinux;
        self.add(
            selinux == Selinux::Confine,
            "spec.system.selinux",
            selinux.word(),
            "with iSulad today: keep, permissive",
        );
        let kind = cluster.registry.kind;
        let known = [RegistryKind::Embedded, RegistryKind::None].contains(&kind);
        self.add(!known, "spec.registry.type", kind.word(), "with iSulad today: embedded, none");
        let instead = "leave it out: nodes with iSulad have every image of the bundle, and pull none of them";
        self.add(!cluster.registry.auths.is_empty(), "spec.registry.auths", "", instead);
        let network = &cluster.network;
        let known = [NetworkPlugin::Flannel, NetworkPlugin::None].contains(&network.plugin);
        self.add(!known, "spec.network.plugin", network.plugin.word(), "with iSulad today: flannel, none");
        self.add(network.multus, "spec.network.multus", "true", LEAVE_OUT);
        let instead = "with iSulad today: one network, of IPv4";
        self.add(network.has_two_stacks(), "spec.network.podCidr", "", instead);
    }

    /// What its recipe does not know: another control plane would be another member of its databases, which nothing takes out of them again.
    fn kube_ovn(&mut self, cluster: &Cluster) {
        if cluster.network.plugin != NetworkPlugin::KubeOvn {
            return;
        }
        let control_planes = &cluster.role_groups.control_plane;
        let several = control_planes.len() > 1;
        let instead = "name one host: with kube-ovn there is one control plane today";
        self.add(several, "spec.roleGroups.controlPlane", control_planes.join(", "), instead);
        self.further_plugins(cluster);
    }

    fn hybridnet(&mut self, cluster: &Cluster) {
        let pods = cluster.network.pod_cidr;
        if cluster.network.plugin != NetworkPlugin::Hybridnet {
            return;
        }
        let instead = "name a network of /16 or less: Hybridnet has no larger ones";
        self.add(pods.prefix_len() < 16, "spec.network.podCidr", pods.to_string(), instead);
        // Each of them has a node for itself: one too many would be waited for.
        let control_planes = cluster.role_groups.control_plane.len();
        let nodes = cluster.hosts.iter().filter(|host| cluster.roles(&host.name).in_cluster()).count();
        for (part, most) in [("manager", control_planes), ("webhook", control_planes), ("typha", nodes)] {
            let replicas = cluster.network.options.get(part).and_then(|part| part.get("replicas")?.as_u64());
            let found = replicas.filter(|replicas| most > 0 && *replicas > most as u64);
            let path = format!("spec.network.options.{part}.replicas");
            let instead = format!("there are {most} hosts for them, and each has one for itself: name {most} or fewer");
            self.add(found.is_some(), &path, found.unwrap_or_default().to_string(), &instead);
        }
        self.further_plugins(cluster);
    }

    /// What was not even rendered with plugins that ran on no host.
    fn further_plugins(&mut self, cluster: &Cluster) {
        let plugin = cluster.network.plugin;
        self.add(cluster.network.multus, "spec.network.multus", "true", LEAVE_OUT);
        let mode = cluster.kubernetes.as_ref().map_or(ProxyMode::Iptables, |kubernetes| kubernetes.proxy_mode);
        let instead = format!("with {plugin} today: {}, {}", ProxyMode::Iptables, ProxyMode::Ipvs);
        self.add(mode == ProxyMode::Nftables, "spec.kubernetes.proxyMode", mode.word(), &instead);
    }

    /// One family, or IPv4 before IPv6 for pods and services alike.
    fn stacks(&mut self, network: &Network) {
        let both = network.has_two_stacks() && !network.more_service_cidrs.is_empty();
        for (key, first, more) in [
            ("podCidr", network.pod_cidr, &network.more_pod_cidrs),
            ("serviceCidr", network.service_cidr, &network.more_service_cidrs),
        ] {
            let right = matches!(first, IpNet::V4(_)) && (more.is_empty() || both);
            let written = std::iter::once(&first).chain(more).map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let instead = "one IPv4 network today, or of podCidr and serviceCidr both families, IPv4 first";
            self.add(!right, &format!("spec.network.{key}"), written, instead);
        }
        let plugins = [NetworkPlugin::Flannel, NetworkPlugin::Calico, NetworkPlugin::Cilium, NetworkPlugin::None];
        if both && !plugins.contains(&network.plugin) {
            let words: Vec<&str> = plugins.iter().map(|plugin| plugin.word()).collect();
            let instead = format!("pods have both families with {} today", words.join(", "));
            self.add(true, "spec.network.podCidr", network.plugin.word(), &instead);
        }
        // There is no IP in IP for IPv6, and BIRD's routes have run with one family.
        let encapsulation = network.options.get("encapsulation").and_then(Value::as_str).unwrap_or("VXLAN");
        let bird = network.plugin == NetworkPlugin::Calico && !encapsulation.starts_with("VXLAN");
        let instead = "pods have both families with VXLAN or VXLANCrossSubnet today";
        self.add(both && bird, "spec.network.options.encapsulation", encapsulation, instead);
    }

    fn load_balancer(&mut self, mode: &LoadBalancerMode) {
        match mode {
            LoadBalancerMode::None => {}
            LoadBalancerMode::External { vip, .. } => self.v4("spec.loadBalancer.vip", *vip),
            LoadBalancerMode::Internal { vip, port, .. } => {
                if let Some(vip) = vip {
                    self.v4("spec.loadBalancer.vip", *vip);
                }
                // Everybody asks by one name and one port, and control planes ask themselves.
                let instead = format!("leave it out: it is the port of the API servers, {API_PORT}");
                self.add(*port != API_PORT, "spec.loadBalancer.port", port.to_string(), &instead);
            }
        }
    }

    fn registry(&mut self, registry: &Registry) {
        self.add(
            registry.private_registry.is_some() && registry.kind != RegistryKind::External,
            "spec.registry.privateRegistry",
            registry.private_registry.clone().unwrap_or_default(),
            LEAVE_OUT,
        );
        self.add(
            registry.namespace_override.is_some() && registry.kind != RegistryKind::External,
            "spec.registry.namespaceOverride",
            registry.namespace_override.clone().unwrap_or_default(),
            LEAVE_OUT,
        );
    }

    /// Docker, the ports 80 and 443 and some gigabytes of memory are Harbor's.
    fn harbor(&mut self, cluster: &Cluster) {
        if cluster.registry.kind != RegistryKind::Harbor {
            return;
        }
        let registries = &cluster.role_groups.registry;
        let several = registries.len() > 1;
        self.add(several, "spec.roleGroups.registry", registries.join(", "), "name one host: there is one Harbor");
        for name in registries.iter().filter(|name| cluster.roles(name).in_cluster()) {
            let instead = "give Harbor a host of its own: it shares none with a node of the cluster";
            self.add(true, "spec.roleGroups.registry", name, instead);
        }
    }

    /// Hosts of one family reach no server of the other.
    fn storage(&mut self, cluster: &Cluster) {
        let server = cluster.storage.nfs.as_ref().and_then(|nfs| nfs.server.parse().ok());
        if let Some(server) = server.filter(|_| !cluster.network.has_two_stacks()) {
            self.v4("spec.storage.nfs.server", server);
        }
    }

    /// A login that nothing would use is most often one under another name than its registry has.
    fn logins(&mut self, cluster: &Cluster) {
        let name = names::registry_name(&cluster.name);
        for key in cluster.unused_logins() {
            let instead = format!("one login for each registry that the cluster uses; its own registry is {name}");
            self.add(true, &format!("spec.registry.auths.{key}"), "", &instead);
        }
    }
}
