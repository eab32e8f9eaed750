//! The distribution registry: it answers from its file-system layout, as the real one does.

use super::rooted::RootedSystem;
use super::state::State;
use crate::OpError;
use crate::system::Head;

const UNIT: &str = "kubexm-registry.service";

pub(super) fn heads(system: &RootedSystem, state: &State, url: &str, paths: &[String]) -> Result<Vec<Head>, OpError> {
    if !state.units.get(UNIT).is_some_and(|unit| unit.active) {
        return Err(OpError::other(format!("{url}: nothing listens there")));
    }
    let config = system.read("/etc/kubexm/registry/config.yml").unwrap_or_default();
    let root = config.lines().find_map(|line| line.trim().strip_prefix("rootdirectory:"));
    let root = root.ok_or_else(|| OpError::other(format!("{UNIT} has no rootdirectory")))?;
    let root = format!("{}/docker/registry/v2", root.trim().trim_matches('"'));
    Ok(paths.iter().map(|path| head(system, &root, path)).collect())
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
