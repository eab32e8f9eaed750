//! The versions of what runs: a kubelet's is that of its program when it started.

use serde_json::{Value, json};

use super::rooted::RootedSystem;
use super::state::State;

/// What clusters of earlier fakes have.
const DEFAULT: &str = "v1.34.4";

/// kubelet reports the version of the program that it was started from. Programs of tests name their version.
pub(super) fn kubelet_started(system: &RootedSystem, state: &mut State, node: &str) {
    let version = program_version(system, "kubelet");
    let Some(node) = state.cluster.nodes.get_mut(node).and_then(Value::as_object_mut) else { return };
    let status = node.entry("status").or_insert_with(|| json!({}));
    if let Some(version) = version {
        status["nodeInfo"] = json!({"kubeletVersion": version});
    }
}

/// From `binary/kubelet 1.34.4 for Amd64`.
pub(super) fn program_version(system: &RootedSystem, program: &str) -> Option<String> {
    let text = system.read(&format!("/usr/local/bin/{program}"))?;
    let version = text.split_whitespace().nth(1)?;
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| format!("v{version}"))
}

/// The image of a static pod.
pub(super) fn image_of(state: &State, node: &str, pod: &str) -> String {
    let set = state.cluster.images.get(node).and_then(|images| images.get(pod)).cloned();
    set.unwrap_or_else(|| format!("registry.k8s.io/{pod}:{}", made_with(state)))
}

/// Of the first API server.
pub(super) fn version_of_api(state: &State) -> String {
    let first = state.cluster.api_servers().into_iter().next();
    let image = image_of(state, first.unwrap_or_default(), "kube-apiserver");
    image.rsplit_once(':').map_or(DEFAULT, |(_, tag)| tag).to_owned()
}

fn made_with(state: &State) -> &str {
    state.cluster.made_with.as_deref().or(state.cluster.version.as_deref()).unwrap_or(DEFAULT)
}
