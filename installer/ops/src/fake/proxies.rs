//! The proxies before the API servers on workers: static pods that read their configuration again on SIGHUP, as haproxy and
//! nginx do. One with the word `unreadable` is not taken, and the process goes on with the one before.

use kubexm_spec::cluster::API_PORT;

use super::rooted::RootedSystem;
use super::state::{State, StaticPod};
use crate::OpError;
use crate::system::HttpsServer;

/// Their pods.
pub(super) const PODS: [&str; 2] = ["kubexm-haproxy", "kubexm-nginx"];

/// The configuration that a manifest names.
pub(super) fn config(system: &RootedSystem, pod: &str, manifest: &str) -> Option<String> {
    let mut words = manifest.split_whitespace().filter(|_| PODS.contains(&pod));
    let path = words.find(|word| word.starts_with("/etc/kubexm/") && system.at(word).is_file())?;
    system.read(path)
}

fn running(state: &State) -> impl Iterator<Item = &StaticPod> {
    PODS.iter().filter_map(|pod| state.static_pods.get(*pod)).filter(|pod| !pod.ended)
}

/// What the proxy on this port says of the configuration that it has read.
pub(super) fn revision(state: &State, port: u16) -> Result<String, OpError> {
    let refused = || OpError::other(format!("http://127.0.0.1:{port}/: connection refused"));
    let pod = running(state).find(|pod| pod.config.contains(&format!("127.0.0.1:{port}"))).ok_or_else(refused)?;
    let found = pod.config.split("revision ").nth(1).ok_or_else(refused)?;
    let revision: String = found.chars().take_while(char::is_ascii_hexdigit).collect();
    Ok(format!("revision {revision}\n"))
}

/// The status of the API server behind the proxy; none for another server.
pub(super) fn api_server(
    system: &RootedSystem,
    state: &State,
    server: &HttpsServer<'_>,
) -> Option<Result<u16, OpError>> {
    let proxy = format!("https://127.0.0.1:{API_PORT}/");
    // A load balancer on other hosts, which the fake does not have.
    if server.url.ends_with("/readyz") && !server.url.starts_with(&proxy) {
        let up = state.cluster.members.values().any(|member| !member.dead);
        return Some(if up { Ok(200) } else { Err(OpError::other(format!("{}: connection refused", server.url))) });
    }
    if !server.url.starts_with(&proxy) || system.at("/etc/kubernetes/admin.conf").exists() {
        return None;
    }
    let leads = |pod: &StaticPod| {
        let mut up = state.cluster.members.values().filter(|member| !member.dead);
        up.any(|member| pod.config.contains(&format!(" {}:{API_PORT}", member.address)))
    };
    let refused = || OpError::other(format!("{}: connection refused", server.url));
    Some(if running(state).any(leads) { Ok(200) } else { Err(refused()) })
}
