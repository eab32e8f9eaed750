//! haproxy: its master process reads the configuration again on SIGHUP and starts a worker with it; the worker of before keeps its
//! connections. With a configuration that it does not take it goes on with the one of before (haproxy's `management.txt`, 4).

use super::proxy::Proxy;
use crate::templates::template;

pub(super) const PROXY: Proxy = Proxy {
    program: "haproxy",
    pod: "kubexm-haproxy",
    folder: "/etc/kubexm/haproxy",
    config: "/etc/kubexm/haproxy/haproxy.cfg",
    template: template!("haproxy.cfg"),
    // In the foreground, as a master with workers.
    command: &["haproxy", "-W", "-db", "-f", "/etc/kubexm/haproxy/haproxy.cfg"],
    reads: &["/etc/kubernetes/pki"],
};
