//! Secrets in which helm keeps revisions, as the fake kubectl reads and changes them.

use serde_json::{Value, json};

use super::state::State;
use crate::system::Output;

/// The answer to a request for the revisions of a release; none for other paths.
pub(super) fn listed(state: &State, path: &str) -> Option<Output> {
    let (namespace, query) = path.strip_prefix("/api/v1/namespaces/")?.split_once("/secrets?")?;
    let name = query.rsplit("%3D").next().unwrap_or_default();
    let all = state.cluster.releases.get(&format!("{namespace}/{name}")).cloned().unwrap_or_default();
    Some(Output::text(json!({ "items": all }).to_string()))
}

/// The Secret of a revision.
fn secret<'a>(state: &'a mut State, namespace: &str, name: &str) -> Option<&'a mut Value> {
    let of_namespace = format!("{namespace}/");
    let mut releases = state.cluster.releases.iter_mut().filter(|(key, _)| key.starts_with(&of_namespace));
    releases.find_map(|(_, all)| all.iter_mut().find(|secret| secret["metadata"]["name"] == name))
}

pub(super) fn annotate(state: &mut State, namespace: &str, name: &str, note: &str) -> Output {
    match (secret(state, namespace, name), note.split_once('=')) {
        (Some(secret), Some((key, value))) => {
            secret["metadata"]["annotations"][key] = value.into();
            Output::default()
        }
        _ => Output::failed(1, format!("Error from server (NotFound): secrets \"{name}\" not found")),
    }
}

pub(super) fn replace(state: &mut State, namespace: &str, text: &str) -> Output {
    let object: Value = serde_json::from_str(text).unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    match secret(state, namespace, &name) {
        Some(secret) => {
            *secret = object;
            Output::default()
        }
        None => Output::failed(1, format!("Error from server (NotFound): secrets \"{name}\" not found")),
    }
}
