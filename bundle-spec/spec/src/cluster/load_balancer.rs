//! `spec.loadBalancer`: what the control plane's name leads to.

use std::net::IpAddr;

use serde::Serialize;

use crate::keywords::keywords;

/// The TCP port of an API server on its own host.
pub const API_PORT: u16 = 6443;
/// The TCP port on which the proxy beside keepalived answers its own host, on 127.0.0.1. Below 1024: a user of the host who could listen
/// there while the proxy is away would keep the cluster's address on a host without a proxy. Not among those that bindresvport(3) takes, and
/// unassigned (IANA).
pub const BALANCER_STATUS_PORT: u16 = 326;
/// The same in clusters of earlier programs.
pub const EARLIER_STATUS_PORT: u16 = 6445;

/// `spec.loadBalancer`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancer {
    /// What is there.
    pub mode: LoadBalancerMode,
    /// Name of the control plane; `lb.<cluster>.kubexm.internal` when none.
    pub domain: Option<String>,
}

/// `spec.loadBalancer.mode`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum LoadBalancerMode {
    /// None: the name has the addresses of all control planes, the first one's first.
    #[default]
    None,
    /// An address outside the control planes, which spreads over them.
    External {
        /// Who makes it so.
        #[serde(rename = "type")]
        kind: ExternalKind,
        /// Its address.
        vip: IpAddr,
        /// Its TCP port, 6443.
        port: u16,
        /// Interface that keepalived puts the address on; the one with the node's address when none.
        #[serde(skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// keepalived's `virtual_router_id`, which distinguishes pairs in one network; from the address when none.
        #[serde(skip_serializing_if = "Option::is_none")]
        virtual_router_id: Option<u8>,
    },
    /// Something on the nodes themselves.
    Internal {
        /// What.
        #[serde(rename = "type")]
        kind: InternalKind,
        /// The address that moves between the control planes; with `kube-vip` and no other.
        vip: Option<IpAddr>,
        /// TCP port: of the address, or of the proxy on every node; 6443.
        port: u16,
        /// Interface that kube-vip puts the address on; the one with the node's address when none.
        #[serde(skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    },
}

keywords! {
    /// `spec.loadBalancer.external.type`.
    pub enum ExternalKind {
        /// The user's own.
        External = "external",
        /// keepalived and haproxy on the hosts of the role loadbalancer.
        KubexmKh = "kubexm-kh",
        /// keepalived and nginx on the hosts of the role loadbalancer.
        KubexmKn = "kubexm-kn",
    }
}

keywords! {
    /// `spec.loadBalancer.internal.type`.
    pub enum InternalKind {
        /// haproxy on every worker, as a static pod.
        Haproxy = "haproxy",
        /// nginx on every worker, as a static pod.
        Nginx = "nginx",
        /// kube-vip on the control planes, as a static pod.
        KubeVip = "kube-vip",
    }
}

impl LoadBalancerMode {
    /// An address of the user's own.
    pub const fn at(vip: IpAddr, port: u16) -> Self {
        Self::External { kind: ExternalKind::External, vip, port, interface: None, virtual_router_id: None }
    }

    /// The address that clients use, where there is one.
    pub const fn vip(&self) -> Option<IpAddr> {
        match self {
            Self::External { vip, .. } | Self::Internal { vip: Some(vip), .. } => Some(*vip),
            Self::None | Self::Internal { vip: None, .. } => None,
        }
    }

    /// The TCP port that clients use.
    pub const fn port(&self) -> u16 {
        match self {
            Self::None => API_PORT,
            Self::External { port, .. } | Self::Internal { port, .. } => *port,
        }
    }
}
