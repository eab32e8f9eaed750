//! keepalived and a proxy on the hosts of the role loadbalancer: the names that recipes and ops share.

/// The unit of keepalived, which moves the virtual address.
pub const KEEPALIVED_UNIT: &str = "kubexm-keepalived.service";
/// The unit of haproxy, which has the API servers as its back-ends.
pub const HAPROXY_UNIT: &str = "kubexm-haproxy.service";
/// haproxy's configuration.
pub const HAPROXY_CONFIG: &str = "/etc/kubexm/balancer/haproxy.cfg";
/// keepalived's configuration.
pub const KEEPALIVED_CONFIG: &str = "/etc/kubexm/balancer/keepalived.conf";
