//! Containers of static pods, as crictl lists them and whatever sends them signals.

use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::rooted::RootedSystem;
use super::state::{State, StaticPod};
use super::{api_server, proxies};
use crate::system::Output;

/// `crictl ps --all --output json`, with a label that names a container: `io.kubernetes.container.name=etcd`.
pub(super) fn listed(system: &RootedSystem, state: &mut State, label: &str) -> Output {
    let pod = label.split_once('=').map_or("", |(_, pod)| pod);
    // kubelet restarts a container that ended.
    if api_server::get(state, pod).is_some_and(|found| found.ended) {
        api_server::set(state, pod, None);
        api_server::run_manifest(system, state);
    }
    let entry = |found: &StaticPod| {
        let word = if found.ended { "CONTAINER_EXITED" } else { "CONTAINER_RUNNING" };
        json!({"id": found.id, "state": word})
    };
    let all: Vec<_> = api_server::get(state, pod).map(entry).into_iter().collect();
    Output::text(json!({ "containers": all }).to_string())
}

/// `crictl inspect --output json`.
pub(super) fn inspected(state: &State, id: &str) -> Output {
    match api_server::find(state, id) {
        Some((_, found)) => {
            let started = OffsetDateTime::from_unix_timestamp_nanos(i128::from(found.started)).ok();
            let created = started.and_then(|started| started.format(&Rfc3339).ok());
            Output::text(json!({"status": {"createdAt": created}}).to_string())
        }
        None => Output::failed(1, format!("container with ID starting with {id} not found: ID does not exist")),
    }
}

/// Sends a signal; false where there is no such container.
pub(super) fn signal(system: &RootedSystem, state: &mut State, id: &str, signal: &str) -> bool {
    let Some((pod, found)) = api_server::find(state, id).map(|(pod, found)| (pod, found.clone())) else { return false };
    if signal == "SIGHUP" {
        let manifest = system.read(&format!("/etc/kubernetes/manifests/{pod}.yaml")).unwrap_or_default();
        let config = proxies::config(system, pod, &manifest).filter(|text| !text.contains("unreadable"));
        let config = config.unwrap_or_else(|| found.config.clone());
        api_server::set(state, pod, Some(StaticPod { config, ..found }));
    } else {
        api_server::set(state, pod, None);
        api_server::run_manifest(system, state);
    }
    true
}
