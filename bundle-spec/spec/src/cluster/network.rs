//! `spec.network`.

use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::keywords::keywords;

const POD_CIDR: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 233, 64, 0), 18);
const SERVICE_CIDR: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 233, 0, 0), 18);

/// `spec.network`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// The main plugin.
    #[serde(skip_serializing_if = "is_default")]
    pub plugin: NetworkPlugin,
    /// Whether multus is before it, so that pods can have further interfaces.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub multus: bool,
    /// Network of pods, `10.233.64.0/18`.
    pub pod_cidr: IpNet,
    /// The network of the other family, for dual-stack.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more_pod_cidrs: Vec<IpNet>,
    /// Network of services, `10.233.0.0/18`.
    pub service_cidr: IpNet,
    /// The network of the other family, for dual-stack.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more_service_cidrs: Vec<IpNet>,
    /// Interface of the pod network; by the node's internal address when none.
    pub interface: Option<String>,
    /// Options of the plugin, in its own words (values of its chart).
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
}

impl Network {
    /// The networks of pods, the first family first.
    pub fn pod_cidrs(&self) -> impl Iterator<Item = IpNet> {
        std::iter::once(self.pod_cidr).chain(self.more_pod_cidrs.iter().copied())
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
        /// flannel with VXLAN.
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

impl Default for Network {
    fn default() -> Self {
        Self {
            plugin: NetworkPlugin::default(),
            multus: false,
            pod_cidr: POD_CIDR.into(),
            more_pod_cidrs: Vec::new(),
            service_cidr: SERVICE_CIDR.into(),
            more_service_cidrs: Vec::new(),
            interface: None,
            options: Map::new(),
        }
    }
}
