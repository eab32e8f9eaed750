//! What an API server counts of its clients (Prometheus' text format).

use std::collections::BTreeMap;

use kubexm_plan::cluster_facts::DeprecatedApi;
use serde_json::Value;

use crate::{Machine, OpError, kube};

/// A gauge that is 1 for each deprecated API that was used since the API server started; from Kubernetes 1.19.
const DEPRECATED: &str = "apiserver_requested_deprecated_apis{";

/// So many objects are looked at for who has written them.
const OBJECTS: u32 = 200;
/// So many writers are named.
const WRITERS: usize = 5;

pub(super) fn deprecated_apis(machine: &Machine) -> Result<Vec<DeprecatedApi>, OpError> {
    let mut all = of_text(&kube::raw_text(machine, "/metrics")?);
    // Only of those that go: the question counts as a use, and these have one already.
    for api in all.iter_mut().filter(|api| !api.removed_in.is_empty()) {
        let list = kube::raw(machine, &list_path(api)).ok().flatten();
        api.written_by = list.map(|list| writers(&list, api)).unwrap_or_default();
    }
    Ok(all)
}

fn list_path(DeprecatedApi { group, version, resource, .. }: &DeprecatedApi) -> String {
    let resource = resource.split('/').next().unwrap_or(resource);
    match group.as_str() {
        "" => format!("/api/{version}/{resource}?limit={OBJECTS}"),
        group => format!("/apis/{group}/{version}/{resource}?limit={OBJECTS}"),
    }
}

/// The managers whose last write of a field went through this version of the API, each with the first of its objects.
fn writers(list: &Value, api: &DeprecatedApi) -> Vec<String> {
    let slash = if api.group.is_empty() { "" } else { "/" };
    let version = format!("{}{slash}{}", api.group, api.version);
    let mut found: BTreeMap<&str, String> = BTreeMap::new();
    for object in list["items"].as_array().into_iter().flatten() {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        let name = text("/metadata/name").unwrap_or("?");
        let name = text("/metadata/namespace").map_or_else(|| name.to_owned(), |space| format!("{space}/{name}"));
        let fields = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        for entry in fields.into_iter().flatten().filter(|entry| entry["apiVersion"] == version) {
            // The API server's own objects are brought along by its new version.
            let manager = entry["manager"].as_str().filter(|manager| !manager.starts_with("api-priority-and-fairness"));
            if let Some(manager) = manager {
                found.entry(manager).or_insert_with(|| name.clone());
            }
        }
    }
    found.into_iter().take(WRITERS).map(|(manager, name)| format!("{manager} ({name})")).collect()
}

fn of_text(text: &str) -> Vec<DeprecatedApi> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(DEPRECATED));
    let mut all: Vec<DeprecatedApi> = lines.filter_map(|line| of_labels(line.rsplit_once('}')?)).collect();
    all.sort();
    all.dedup();
    all
}

/// Labels and value of one line. Names of API groups and resources have no characters that are escaped.
fn of_labels((labels, value): (&str, &str)) -> Option<DeprecatedApi> {
    if value.trim().parse::<f64>().ok()? <= 0.0 {
        return None;
    }
    let label = |wanted: &str| {
        let mut pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
        let found = pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value.trim_matches('"').to_owned());
        found.unwrap_or_default()
    };
    let (resource, subresource) = (label("resource"), label("subresource"));
    let resource = if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
    Some(DeprecatedApi {
        group: label("group"),
        version: label("version"),
        resource,
        removed_in: label("removed_release"),
        written_by: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Lines as kube-apiserver 1.31 writes them.
    #[test]
    fn deprecated_apis_that_were_used_are_read_from_the_metrics() {
        let text = "# HELP apiserver_requested_deprecated_apis [STABLE] Gauge of deprecated APIs\n\
            # TYPE apiserver_requested_deprecated_apis gauge\n\
            apiserver_requested_deprecated_apis{group=\"flowcontrol.apiserver.k8s.io\",removed_release=\"1.32\",resource=\"flowschemas\",subresource=\"\",version=\"v1beta3\"} 1\n\
            apiserver_requested_deprecated_apis{group=\"\",removed_release=\"\",resource=\"componentstatuses\",subresource=\"\",version=\"v1\"} 1\n\
            apiserver_requested_deprecated_apis{group=\"x\",removed_release=\"1.32\",resource=\"y\",subresource=\"status\",version=\"v1\"} 0\n\
            apiserver_request_total{group=\"a\"} 7\n";
        let found: Vec<String> = of_text(text).iter().map(|api| format!("{api} {}", api.removed_in)).collect();
        assert_eq!(found, ["componentstatuses of v1 ", "flowschemas of flowcontrol.apiserver.k8s.io/v1beta3 1.32"]);
        assert_eq!(list_path(&of_text(text)[1]), "/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas?limit=200");
    }

    #[test]
    fn whoever_has_written_through_an_api_is_named_with_an_object() {
        let api = DeprecatedApi {
            group: "batch".to_owned(),
            version: "v1beta1".to_owned(),
            resource: "cronjobs".to_owned(),
            removed_in: "1.25".to_owned(),
            written_by: Vec::new(),
        };
        let object = |name: &str, fields: Value| json!({"metadata": {"namespace": "shop", "name": name, "managedFields": fields}});
        let list = json!({"items": [
            object("a", json!([{"manager": "helm", "apiVersion": "batch/v1"}])),
            object("b", json!([{"manager": "helm", "apiVersion": "batch/v1beta1"}, {"manager": "kubectl", "apiVersion": "batch/v1"}])),
            object("c", json!([{"manager": "helm", "apiVersion": "batch/v1beta1"}, {"apiVersion": "batch/v1beta1"}])),
            {"metadata": {"name": "d"}},
        ]});
        assert_eq!(writers(&list, &api), ["helm (shop/b)"]);
        assert_eq!(writers(&json!({}), &api), Vec::<String>::new());
    }
}
