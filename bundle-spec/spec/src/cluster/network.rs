//! `spec.network`.

use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};
use serde_json::{Map, Value};

use super::field::{Cidr, FieldType, Interface, OfEachFamily, Version, section};
use super::network_options;
use super::parse::take::none_of;
use crate::keywords::keywords;
use crate::yaml::{At, Mapping, Shape};

section! {
    /// The network of pods and services
    ///
    /// `spec.network`.
    #[check(plugins(plugin, multus, pod_cidr))]
    pub struct Network {
        /// The main plugin; multus is the default one with multus before it
        #[serde(skip_serializing_if = "is_default")]
        #[yaml("plugin" as Plugin)]
        pub plugin: NetworkPlugin,
        /// Exact version of the plugin; the newest that suits the Kubernetes version when left out
        ///
        /// Without `v`. One of the catalogue: flannel's is the catalogue's own.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("version" as Option<Version>)]
        pub version: Option<String>,
        /// Whether multus is before the main plugin
        ///
        /// Pods can have further interfaces then.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        #[yaml("multus")]
        pub multus: bool,
        /// Network of pods, or one of each family
        ///
        /// /8 to /24 or /48 to /64: kubeadm gives each node a /24 of IPv4, and a /64 of IPv6 (at most 65536 nodes).
        #[yaml("podCidr" as OfEachFamily<Cidr<8, 24, 48, 64>>, default = v4_only(10, 233, 64))]
        #[others(more_pod_cidrs: Vec<IpNet>)]
        pub pod_cidr: IpNet,
        /// Network of services, or one of each family
        ///
        /// /12 to /28 or /108 to /124: the API server takes no more than 20 bits of addresses.
        #[yaml("serviceCidr" as OfEachFamily<Cidr<12, 28, 108, 124>>, default = v4_only(10, 233, 0))]
        #[others(more_service_cidrs: Vec<IpNet>)]
        pub service_cidr: IpNet,
        /// Interface between the nodes; the one with the node's address when left out
        #[yaml("interface" as Option<Interface>)]
        pub interface: Option<String>,
        /// Options of the plugin in its own words (values of its chart; flannel and Calico have lists of their own)
        #[serde(skip_serializing_if = "Map::is_empty")]
        #[yaml("options")]
        pub options: Map<String, Value>,
    }
}

/// A /18 of IPv4 and no other network.
fn v4_only(a: u8, b: u8, c: u8) -> (IpNet, Vec<IpNet>) {
    (Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), 18).into(), Vec::new())
}

impl Network {
    /// The networks of pods, the first family first.
    pub fn pod_cidrs(&self) -> impl Iterator<Item = IpNet> {
        std::iter::once(self.pod_cidr).chain(self.more_pod_cidrs.iter().copied())
    }

    /// Whether pods have addresses of both families.
    pub fn has_two_stacks(&self) -> bool {
        !self.more_pod_cidrs.is_empty()
    }

    /// Whether Cilium does the work of kube-proxy, so that there is none.
    pub fn replaces_kube_proxy(&self) -> bool {
        let option = self.options.get("kubeProxyReplacement");
        self.plugin == NetworkPlugin::Cilium && option.is_some_and(|value| *value == true || *value == "true")
    }

    /// The networks of services, the first family first.
    pub fn service_cidrs(&self) -> impl Iterator<Item = IpNet> {
        std::iter::once(self.service_cidr).chain(self.more_service_cidrs.iter().copied())
    }
}

/// Whether two networks share an address.
pub fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

fn is_default(plugin: &NetworkPlugin) -> bool {
    *plugin == NetworkPlugin::default()
}

keywords! {
    /// `spec.network.plugin`.
    pub enum NetworkPlugin {
        /// flannel.
        Flannel = "flannel",
        /// Calico.
        Calico = "calico",
        /// Cilium.
        Cilium = "cilium",
        /// Kube-OVN.
        KubeOvn = "kube-ovn",
        /// Hybridnet.
        Hybridnet = "hybridnet",
        /// None: nodes are not Ready until the user puts one in.
        None = "none",
    }
}

/// The plugin that only is before another one; a word for the default one with it.
const MULTUS: &str = "multus";

/// A plugin, or [`MULTUS`].
pub(super) struct Plugin;

impl Plugin {
    /// Whether the word is [`MULTUS`].
    pub(super) fn is_multus(at: Option<&At<'_>>) -> bool {
        at.is_some_and(|at| at.text_quiet() == Some(MULTUS))
    }
}

impl FieldType for Plugin {
    type Value = NetworkPlugin;

    const SHAPE: Shape = Shape::Words(&["flannel", "calico", "cilium", "kube-ovn", "hybridnet", "none", MULTUS]);

    fn read(at: &At<'_>) -> Option<NetworkPlugin> {
        if Self::is_multus(Some(at)) { Some(NetworkPlugin::default()) } else { NetworkPlugin::read(at) }
    }

    fn show(value: &NetworkPlugin) -> Option<Value> {
        NetworkPlugin::show(value)
    }
}

fn plugins(
    map: &Mapping<'_>,
    plugin: Option<&NetworkPlugin>,
    multus: Option<&bool>,
    pods: Option<&IpNet>,
) -> Option<()> {
    let (plugin, multus) = (*plugin?, *multus?);
    network_options::check(map, plugin);
    network_options::backend(map, plugin);
    if let Some(pods) = pods {
        network_options::blocks(map, plugin, *pods);
    }
    if plugin == NetworkPlugin::Flannel {
        let why = "flannel comes in one version only, the catalogue's";
        none_of(map, &["version"], why, "leave it out");
    }
    if let Some(at) = map.get("multus").filter(|_| !multus && Plugin::is_multus(map.get("plugin").as_ref())) {
        at.bad("plugin is multus, and this is none", "leave one of the two out");
        return None;
    }
    if plugin == NetworkPlugin::None && multus {
        let hint = "choose a main plugin, or install multus yourself as an add-on";
        map.get("multus")?.bad("multus is before a main plugin, and there is none", hint);
        return None;
    }
    if plugin == NetworkPlugin::None {
        let why = "there is no plugin that these would be options of";
        none_of(map, &["options", "version"], why, "choose a plugin, or leave it out");
    }
    Some(())
}
