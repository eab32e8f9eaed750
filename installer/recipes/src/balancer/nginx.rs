//! nginx with its `stream` module: its master process reads the configuration again on SIGHUP and starts workers with it; those of
//! before keep their connections. With a configuration that it does not take it goes on with the one of before (nginx's "Controlling
//! nginx").
//!
//! It checks back-ends only passively: it asks nobody, and learns that an API server is away when a client's connection to it
//! fails, and tries the next one. One that accepts connections and is not ready gets its share of them; haproxy asks `/readyz`.

use super::proxy::Proxy;
use crate::templates::template;

pub(super) const PROXY: Proxy = Proxy {
    program: "nginx",
    pod: "kubexm-nginx",
    folder: "/etc/kubexm/nginx",
    config: "/etc/kubexm/nginx/nginx.conf",
    template: template!("nginx.conf"),
    command: &["nginx", "-c", "/etc/kubexm/nginx/nginx.conf", "-g", "daemon off;"],
    reads: &[],
};
