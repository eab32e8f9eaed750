//! keepalived and a proxy on the hosts of the role loadbalancer: the names that recipes and ops share.

use serde::{Deserialize, Serialize};

/// What moves an address between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MovedBy {
    /// On the hosts of the load balancer.
    Keepalived,
    /// On control planes.
    KubeVip,
}

/// The unit of keepalived, which moves the virtual address.
pub const KEEPALIVED_UNIT: &str = "kubexm-keepalived.service";
/// keepalived's configuration.
pub const KEEPALIVED_CONFIG: &str = "/etc/kubexm/balancer/keepalived.conf";

/// A proxy beside keepalived, which has the API servers as its back-ends.
#[derive(Debug, PartialEq, Eq)]
pub struct HostProxy {
    /// Its process and its package.
    pub program: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its configuration.
    pub config: &'static str,
    /// The unit of what asks the API servers, where the proxy does not ask them itself.
    pub checker: Option<&'static str>,
}

/// With `kubexm-kh`.
pub const HAPROXY: HostProxy = HostProxy {
    program: "haproxy",
    unit: "kubexm-haproxy.service",
    config: "/etc/kubexm/balancer/haproxy.cfg",
    checker: None,
};
/// With `kubexm-kn`.
pub const NGINX: HostProxy = HostProxy {
    program: "nginx",
    unit: "kubexm-nginx.service",
    config: "/etc/kubexm/balancer/nginx.conf",
    checker: Some("kubexm-nginx-check.service"),
};
/// All of them; a host has one.
pub const PROXIES: [&HostProxy; 2] = [&HAPROXY, &NGINX];

impl HostProxy {
    /// The units of a host with it, keepalived's first: stopped in this order, a host gives up the address before its proxy ends.
    pub fn units(&self) -> impl Iterator<Item = &'static str> {
        [KEEPALIVED_UNIT].into_iter().chain(self.checker).chain([self.unit])
    }
}
