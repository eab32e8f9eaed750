//! The kinds of objects that the API server serves.

pub(crate) use crate::kube::discovery::Api;
use crate::kube::{discovery, kubectl};
use crate::{Machine, OpError};

/// What kubectl prints when an aggregated API does not answer, after all that do.
const INCOMPLETE: &str = "unable to retrieve the complete list of server APIs";

/// Every kind that is served now, in the version that its group prefers. An aggregated API that does not answer (metrics-server is down)
/// hides its own kinds and no others.
pub(crate) fn served(machine: &Machine) -> Result<Vec<Api>, OpError> {
    if let Some(all) = discovery::served(machine)? {
        return Ok(all.into_iter().filter(|one| one.preferred).map(|one| one.api).collect());
    }
    let (listed, _) = listed(machine, &["--no-headers", "--cached=false"])?;
    Ok(listed.lines().filter_map(api).collect())
}

/// What `.Capabilities.APIVersions` of a chart has: `apps/v1`, `apps/v1/Deployment`.
pub(crate) fn names(machine: &Machine) -> Result<Vec<String>, OpError> {
    let every = match discovery::served(machine)? {
        Some(all) => all.into_iter().map(|one| one.api).collect(),
        None => served(machine)?,
    };
    let names = every.into_iter().flat_map(|api| [format!("{}/{}", api.version, api.kind), api.version]);
    let mut all: Vec<String> = names.collect();
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Names of the kinds that are in namespaces and can be listed and deleted, and whether these are all.
pub(crate) fn in_namespaces(machine: &Machine) -> Result<(Vec<String>, bool), OpError> {
    let (listed, complete) = listed(machine, &["--namespaced", "--verbs=list,delete", "--output=name"])?;
    Ok((listed.lines().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(), complete))
}

fn listed(machine: &Machine, options: &[&str]) -> Result<(String, bool), OpError> {
    let program = kubectl(["api-resources"]).args(options.iter().copied());
    let output = machine.try_run(&program)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.code {
        0 => Ok((output.stdout(), true)),
        _ if errors.contains(INCOMPLETE) => Ok((output.stdout(), false)),
        _ => Err(OpError::other(format!("`{program}` failed: {}", output.tail()))),
    }
}

/// A line is `NAME [SHORTNAMES] APIVERSION NAMESPACED KIND`.
fn api(line: &str) -> Option<Api> {
    let mut words = line.split_whitespace().rev();
    let (kind, namespaced, version) = (words.next()?, words.next()?, words.next()?);
    let resource = words.next_back()?.to_owned();
    Some(Api { version: version.to_owned(), kind: kind.to_owned(), namespaced: namespaced == "true", resource })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_from_lines_with_and_without_short_names() {
        let of = |version: &str, kind: &str, namespaced, resource: &str| {
            Some(Api { version: version.to_owned(), kind: kind.to_owned(), namespaced, resource: resource.to_owned() })
        };
        let deployments = of("apps/v1", "Deployment", true, "deployments");
        assert_eq!(api("deployments deploy apps/v1 true Deployment"), deployments);
        assert_eq!(api("nodes   no   v1   false   Node"), of("v1", "Node", false, "nodes"));
        assert_eq!(api("bindings   v1   true   Binding"), of("v1", "Binding", true, "bindings"));
        assert_eq!(api("too short"), None);
    }
}
