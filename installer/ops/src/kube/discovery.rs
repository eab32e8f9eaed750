//! The kinds that the API server serves, in two answers (KEP-3352, aggregated discovery: in every cluster from Kubernetes 1.27 on).

use kubexm_charts::objects::Identity;
use serde_json::Value;

use super::api;
use super::credentials::Credentials;
use crate::{Machine, OpError};

/// What `Accept` says: both versions in which Kubernetes has had it. Others answer with a list of groups.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
const LIST: &str = "APIGroupDiscoveryList";
/// What a version of an aggregated API is whose server does not answer.
const STALE: &str = "Stale";

/// A kind of object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Api {
    /// `apps/v1`.
    pub version: String,
    pub kind: String,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// `deployments`.
    pub resource: String,
}

impl Api {
    /// Whether an object is of this kind, in whichever version of its group.
    pub(crate) fn is_of(&self, object: &Identity) -> bool {
        let group = self.version.split_once('/').map_or("", |(group, _)| group);
        group == object.group && self.kind == object.kind
    }
}

/// A kind in one of the versions in which it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub api: Api,
    /// Whether no version of its group that comes before has this resource.
    pub preferred: bool,
}

/// Every kind, in every version; none where kubectl has to be asked. An aggregated API that does not answer hides its own kinds and no others.
pub(crate) fn served(machine: &Machine) -> Result<Option<Vec<Served>>, OpError> {
    let mut all = Vec::new();
    for path in ["/api", "/apis"] {
        let Some(answer) = groups(machine, path)? else { return Ok(None) };
        all.extend(of_list(&answer));
    }
    Ok((!all.is_empty()).then_some(all))
}

fn groups(machine: &Machine, path: &str) -> Result<Option<Value>, OpError> {
    let ask = |api: &Credentials| api::get_as(machine, api, path, ACCEPT);
    let found = match api::shared(machine, &format!("discovery {path}"), |api| ask(api).ok().flatten()) {
        Some(found) => Some(found),
        None => api::credentials(machine)?.map(|api| ask(&api)).transpose()?.flatten(),
    };
    Ok(found.filter(|answer| answer["kind"] == LIST))
}

fn of_list(list: &Value) -> Vec<Served> {
    list["items"].as_array().into_iter().flatten().flat_map(of_group).collect()
}

fn of_group(group: &Value) -> Vec<Served> {
    let name = group["metadata"]["name"].as_str().unwrap_or_default();
    let mut all: Vec<Served> = Vec::new();
    let versions = group["versions"].as_array().into_iter().flatten().filter(|version| version["freshness"] != STALE);
    for version in versions {
        let number = version["version"].as_str().unwrap_or_default();
        let full = if name.is_empty() { number.to_owned() } else { format!("{name}/{number}") };
        for resource in version["resources"].as_array().into_iter().flatten() {
            let text = |field: &Value| field.as_str().map(str::to_owned);
            let (Some(kind), Some(plural)) = (text(&resource["responseKind"]["kind"]), text(&resource["resource"]))
            else {
                continue;
            };
            if resource["verbs"].as_array().is_none_or(Vec::is_empty) {
                continue;
            }
            let preferred = all.iter().all(|one| one.api.resource != plural);
            let namespaced = resource["scope"] == "Namespaced";
            all.push(Served { api: Api { version: full.clone(), kind, namespaced, resource: plural }, preferred });
        }
    }
    all
}
