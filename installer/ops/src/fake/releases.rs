//! Secrets in which helm keeps revisions, as the fake kubectl reads and changes them.

use serde_json::{Value, json};

use super::state::State;
use crate::system::Output;

/// The answer to a request for the revisions of a release, or for those of all that nothing has taken the place of; none for other
/// paths.
pub(super) fn listed(state: &State, path: &str) -> Option<Output> {
    if path.starts_with("/api/v1/secrets?labelSelector=owner%3Dhelm") {
        let ours = !path.contains("%21kubexm.io%2Fchart");
        let number = |name: &str| path.split('&').find_map(|part| part.strip_prefix(name)?.parse::<usize>().ok());
        let (first, most) = (number("continue=").unwrap_or(0), number("limit=").unwrap_or(usize::MAX));
        let of = |(key, all): (&String, &Vec<Value>)| -> Vec<Value> {
            let namespace = key.split('/').next().unwrap_or_default();
            let current = all.iter().filter(|secret| secret["metadata"]["labels"]["status"] != "superseded");
            let placed = current.cloned().map(|mut secret| {
                secret["metadata"]["namespace"] = namespace.into();
                secret
            });
            placed.collect()
        };
        let is_ours = |secret: &Value| secret["metadata"]["labels"]["kubexm.io/chart"].is_string();
        let all = state.cluster.releases.iter().flat_map(of).filter(|secret| is_ours(secret) == ours);
        let mut all = all.skip(first);
        let page: Vec<Value> = all.by_ref().take(most).collect();
        let next = all.next().map(|_| (first + page.len()).to_string());
        return Some(Output::text(json!({"metadata": {"continue": next}, "items": page}).to_string()));
    }
    if let Some((namespace, name)) =
        path.strip_prefix("/api/v1/namespaces/").and_then(|rest| rest.split_once("/secrets/"))
    {
        let of_namespace = format!("{namespace}/");
        let mut releases = state.cluster.releases.iter().filter(|(key, _)| key.starts_with(&of_namespace));
        let found = releases.find_map(|(_, all)| all.iter().find(|secret| secret["metadata"]["name"] == name))?;
        return Some(Output::text(found.to_string()));
    }
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

/// Takes helm's Secrets out of what is applied, and keeps them as revisions of their releases.
pub(super) fn put_back(state: &mut State, namespace: &str, text: &str) -> String {
    let Ok(mut list) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    let Some(items) = list["items"].as_array_mut() else { return text.to_owned() };
    let is_revision = |object: &Value| object["metadata"]["labels"]["owner"] == "helm";
    for secret in items.extract_if(.., |object| is_revision(object)) {
        let name = secret["metadata"]["labels"]["name"].as_str().unwrap_or_default();
        let all = state.cluster.releases.entry(format!("{namespace}/{name}")).or_default();
        all.retain(|known| known["metadata"]["name"] != secret["metadata"]["name"]);
        all.push(secret);
    }
    list.to_string()
}
