//! The depot, which only says whether it runs, and the distribution registry: it answers from its file-system layout, as
//! the real one does. Both demand a login where their config names one, and take any.

use super::rooted::RootedSystem;
use super::state::State;
use crate::OpError;
use crate::system::{Head, HttpsServer};

const DEPOT: &str = kubexm_plan::depot::UNIT;
const UNIT: &str = kubexm_plan::depot::REGISTRY_UNIT;

pub(super) fn get(system: &RootedSystem, state: &State, server: &HttpsServer<'_>) -> Result<u16, OpError> {
    if !server.url.contains(":5443/") && super::harbor::runs(state) {
        return super::harbor::get(state, server);
    }
    runs(state, DEPOT, server)?;
    let config = system.read("/etc/kubexm/depot/config.json").unwrap_or_default();
    Ok(if config.contains("\"login\":") && server.login.is_none() { 401 } else { 200 })
}

fn runs(state: &State, unit: &str, server: &HttpsServer<'_>) -> Result<(), OpError> {
    match state.units.get(unit) {
        Some(unit) if unit.active => Ok(()),
        _ => Err(OpError::other(format!("{}: nothing listens there", server.url))),
    }
}

pub(super) fn heads(
    system: &RootedSystem,
    state: &State,
    server: &HttpsServer<'_>,
    paths: &[String],
) -> Result<Vec<Head>, OpError> {
    if paths.iter().all(|path| path.starts_with("/blobs/")) {
        return depot_heads(system, state, server, paths);
    }
    if super::harbor::runs(state) {
        return Ok(super::harbor::heads(state, server, paths));
    }
    runs(state, UNIT, server)?;
    let config = system.read("/etc/kubexm/registry/config.yml").unwrap_or_default();
    if config.contains("htpasswd:") && server.login.is_none() {
        return Ok(paths.iter().map(|_| Head { status: 401, digest: None }).collect());
    }
    let root = config.lines().find_map(|line| line.trim().strip_prefix("rootdirectory:"));
    let root = root.ok_or_else(|| OpError::other(format!("{UNIT} has no rootdirectory")))?;
    let root = format!("{}/docker/registry/v2", root.trim().trim_matches('"'));
    Ok(paths.iter().map(|path| head(system, &root, path)).collect())
}

/// The depot answers for what its configuration or a record of a bundle names.
fn depot_heads(
    system: &RootedSystem,
    state: &State,
    server: &HttpsServer<'_>,
    paths: &[String],
) -> Result<Vec<Head>, OpError> {
    runs(state, DEPOT, server)?;
    let mut texts = vec![system.read("/etc/kubexm/depot/config.json").unwrap_or_default()];
    let records = std::fs::read_dir(system.at("/etc/kubexm/depot/bundles")).into_iter().flatten().flatten();
    let records = records.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "json"));
    texts.extend(records.filter_map(|path| std::fs::read_to_string(path).ok()));
    let has = |path: &String| path.rsplit('/').next().is_some_and(|hex| texts.iter().any(|text| text.contains(hex)));
    Ok(paths.iter().map(|path| Head { status: if has(path) { 200 } else { 404 }, digest: None }).collect())
}

fn head(system: &RootedSystem, root: &str, path: &str) -> Head {
    let unknown = Head { status: 404, digest: None };
    let Some(path) = path.strip_prefix("/v2/") else { return unknown };
    let link = if let Some((name, digest)) = path.rsplit_once("/blobs/sha256:") {
        format!("{root}/repositories/{name}/_layers/sha256/{digest}/link")
    } else if let Some((name, digest)) = path.rsplit_once("/manifests/sha256:") {
        format!("{root}/repositories/{name}/_manifests/revisions/sha256/{digest}/link")
    } else if let Some((name, tag)) = path.rsplit_once("/manifests/") {
        format!("{root}/repositories/{name}/_manifests/tags/{tag}/current/link")
    } else {
        return unknown;
    };
    let Some(digest) = system.read(&link) else { return unknown };
    let hex = digest.trim_start_matches("sha256:");
    let there = hex.get(..2).is_some_and(|two| system.at(&format!("{root}/blobs/sha256/{two}/{hex}/data")).is_file());
    if there { Head { status: 200, digest: Some(digest) } } else { unknown }
}
