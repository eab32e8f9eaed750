//! Objects of a rendering: which they are, and which of them hold what is not the chart's own.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Kinds that hold data or objects of others: they are not removed together with what made them.
const KEPT: [(&str, &str); 4] = [
    ("", "Namespace"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
];

/// What identifies an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Empty for the core group.
    pub group: String,
    pub kind: String,
    /// As the object says; empty if it says none.
    pub namespace: String,
    pub name: String,
}

impl Identity {
    /// Of an object. Its version is not a part of it: one object can be read in several.
    pub fn of(object: &Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let version = text("/apiVersion");
        let group = version.split_once('/').map_or("", |(group, _)| group).to_owned();
        Self { group, kind: text("/kind"), namespace: text("/metadata/namespace"), name: text("/metadata/name") }
    }

    /// Whether it holds data or objects of others.
    pub fn is_kept(&self) -> bool {
        KEPT.contains(&(self.group.as_str(), self.kind.as_str()))
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// The items of a list. Whatever has `items` is one for Kubernetes, of any kind (k8s.io/apimachinery, unstructured: `detectList`).
pub fn items(object: &Value) -> Option<&Vec<Value>> {
    object.get("items")?.as_array()
}

/// The objects of a stream, those in lists one by one.
pub fn flattened(documents: Vec<Value>) -> Vec<Value> {
    let mut left = MOST_BARE;
    flattened_within(documents, &mut left)
}

/// The same of one stream of several. `left`: so many items may still get the kind of their list.
pub(crate) fn flattened_within(documents: Vec<Value>, left: &mut usize) -> Vec<Value> {
    let mut all = Vec::new();
    flatten(documents, &mut all, left);
    all.retain(|object| object["kind"].is_string());
    all
}

fn flatten(documents: Vec<Value>, all: &mut Vec<Value>, left: &mut usize) {
    for mut document in documents {
        if items(&document).is_none() {
            all.push(document);
            continue;
        }
        let Value::Array(mut items) = document["items"].take() else { continue };
        let of_list = [text(&document["kind"]), text(&document["apiVersion"])];
        if let [Some(kind), version] = of_list
            && of_list.iter().flatten().all(|text| text.len() <= LONGEST)
        {
            // An item that names neither is of the list's kind (`decodeToList`). What that adds was not counted when the stream was read.
            let kind = kind.strip_suffix("List").unwrap_or(kind);
            let bare =
                |item: &&mut Value| item.is_object() && text(&item["kind"]).or(text(&item["apiVersion"])).is_none();
            for item in items.iter_mut().filter(bare).take(*left) {
                item["kind"] = kind.into();
                item["apiVersion"] = version.into();
                *left -= 1;
            }
        }
        flatten(items, all, left);
    }
}

/// A text that says something.
fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// The most bytes of a list's kind and version that its items get: Kubernetes knows none that are longer.
const LONGEST: usize = 253;
/// The most items of a stream that get the kind of their list; the others are of none, and are no objects here.
pub(crate) const MOST_BARE: usize = 10_000;

/// Annotation of a hook with its events.
const HOOK: &str = "helm.sh/hook";
/// The events of `helm test` (helm's `pkg/release/util/manifest_sorter.go`).
const TESTS: [&str; 2] = ["test", "test-success"];

/// Whether a document of a rendering says that only `helm test` makes it. In `crds/` that means nothing. Go reads keys whatever their case, and the
/// last of those that it takes for one: where there could be two, or another alphabet's, it counts as none.
fn is_test(document: &Value) -> bool {
    let plain = |value: &Value| {
        let keys: Vec<&String> = value.as_object().into_iter().flat_map(Map::keys).collect();
        let mut folded: Vec<String> = keys.iter().map(|key| key.to_ascii_lowercase()).collect();
        folded.sort_unstable();
        folded.dedup();
        folded.len() == keys.len() && keys.iter().all(|key| key.is_ascii())
    };
    let events = document["metadata"]["annotations"][HOOK].as_str();
    let only = |events: &str| events.split(',').all(|event| TESTS.contains(&event.trim()));
    plain(document) && plain(&document["metadata"]) && events.is_some_and(only)
}

/// Whether there is something that `--skip-tests` may leave out.
pub fn has_tests(documents: &[Value]) -> bool {
    documents.iter().any(is_test)
}

/// What an install makes. `all`: a rendering with tests. `skipped`: another one with `--skip-tests`, by which helm also leaves out a hook that is of a
/// test and of an install; it runs at the install.
pub fn installed(all: Vec<Value>, mut skipped: Vec<Value>) -> Vec<Value> {
    let there: BTreeSet<String> = skipped.iter().map(Value::to_string).collect();
    skipped.extend(all.into_iter().filter(|document| !is_test(document) && !there.contains(&document.to_string())));
    skipped
}

/// The APIs that a definition of kinds adds: `example.com/v1`, `example.com/v1/Thing`. None of what Kubernetes would not take: its group and kind
/// are in the names of all of its versions.
pub fn defined(definition: &Value) -> Vec<String> {
    let spec = &definition["spec"];
    let short = |value: &'_ Value, most: usize| value.as_str().filter(|text| text.len() <= most).map(str::to_owned);
    let (Some(group), Some(kind)) = (short(&spec["group"], LONGEST), short(&spec["names"]["kind"], LABEL)) else {
        return Vec::new();
    };
    let versions = spec["versions"].as_array().into_iter().flatten().take(MOST_VERSIONS);
    let names = versions.filter_map(|version| short(&version["name"], LABEL));
    names.flat_map(|version| [format!("{group}/{version}"), format!("{group}/{version}/{kind}")]).collect()
}

/// The most bytes of the name of a kind, or of its version (RFC 1123).
const LABEL: usize = 63;
/// The most versions of a definition that are looked at; Kubernetes' own have three at most.
const MOST_VERSIONS: usize = 100;

/// As one list, which kubectl reads like a stream.
pub fn list(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_apart_and_whatever_has_items_is_one() {
        let documents = vec![
            json!({"kind": "List", "items": [{"kind": "A"}, {"kind": "BList", "items": [{"kind": "B"}]}]}),
            json!({"kind": "CustomResourceDefinition", "items": [{"kind": "C"}]}),
            json!({"kind": "ConfigMap", "items": {"key": "a"}}),
            json!({"apiVersion": "v1", "kind": "PodList", "items": [{"spec": {}}, {"apiVersion": "v1"}]}),
            json!({"text": "no object"}),
        ];
        let found = flattened(documents);
        let kinds: Vec<&str> = found.iter().filter_map(|object| object["kind"].as_str()).collect();
        assert_eq!(kinds, ["A", "B", "C", "ConfigMap", "Pod"]);
        assert_eq!(found[4], json!({"apiVersion": "v1", "kind": "Pod", "spec": {}}));
        // What says nothing names neither, for Kubernetes.
        let bare = json!([{"apiVersion": ""}, {"kind": 0}, {"kind": "", "apiVersion": 1}, {"kind": false}]);
        let list = json!({"apiVersion": "v1", "kind": "PodList", "items": bare});
        assert!(flattened(vec![list]).iter().all(|item| item["kind"] == "Pod" && item["apiVersion"] == "v1"));
    }

    #[test]
    fn a_list_makes_no_more_of_its_items_than_was_read() {
        let list = |kind: &str, items: usize| json!({"kind": kind, "items": vec![json!({}); items]});
        assert!(flattened(vec![list(&"A".repeat(1 << 20), 400_000)]).is_empty());
        assert_eq!(flattened(vec![list("PodList", 400_000)]).len(), MOST_BARE);
        assert_eq!(flattened(vec![list("PodList", 6_000); 50]).len(), MOST_BARE);
    }

    #[test]
    fn a_hook_that_is_not_of_tests_alone_is_installed_though_helm_skips_it() {
        let hook = |events: &str| json!({"kind": "Pod", "metadata": {"name": events, "annotations": {HOOK: events}}});
        let mut two = hook("test");
        two["metadata"]["annotation\u{17f}"] = json!({HOOK: "pre-install"});
        let mut upper = hook("test");
        upper["Metadata"] = json!({});
        let (made, list) = (json!({"kind": "ConfigMap"}), json!({"kind": "List", "items": [hook("test")]}));
        let all = vec![
            made.clone(),
            list.clone(),
            hook("test"),
            hook("test, test-success"),
            hook("test,pre-install"),
            two.clone(),
            upper.clone(),
        ];
        assert!(
            has_tests(&all)
                && !has_tests(&[made.clone(), list.clone(), hook("test,post-install"), two.clone(), upper.clone()])
        );
        assert_eq!(
            installed(all, vec![made.clone(), list.clone()]),
            [made, list, hook("test,pre-install"), two, upper]
        );
    }

    #[test]
    fn a_definition_names_no_more_than_kubernetes_would_take() {
        let of = |group: &str, versions: usize| {
            let versions: Vec<Value> = (0..versions).map(|version| json!({"name": format!("v{version}")})).collect();
            defined(&json!({"spec": {"group": group, "names": {"kind": "Thing"}, "versions": versions}}))
        };
        assert_eq!(of("example.com", 1), ["example.com/v0", "example.com/v0/Thing"]);
        assert_eq!(of("example.com", 240_000).len(), 2 * MOST_VERSIONS);
        assert!(of(&"a".repeat(1 << 20), 240_000).is_empty());
    }

    #[test]
    fn what_holds_data_of_others_is_kept_by_group_and_kind() {
        let of = |version: &str, kind: &str| Identity::of(&json!({"apiVersion": version, "kind": kind})).is_kept();
        assert!(of("v1", "PersistentVolumeClaim") && of("v1", "Namespace"));
        assert!(of("apiextensions.k8s.io/v1", "CustomResourceDefinition"));
        assert!(!of("v1", "ConfigMap") && !of("example.com/v1", "Namespace"));
    }

    #[test]
    fn an_identity_is_the_same_in_every_version_of_its_group() {
        let of = |version: &str| {
            Identity::of(
                &json!({"apiVersion": version, "kind": "Deployment", "metadata": {"name": "a", "namespace": "b"}}),
            )
        };
        assert_eq!(of("apps/v1"), of("apps/v1beta1"));
        assert_ne!(of("apps/v1"), of("v1"));
        assert_eq!(of("apps/v1").to_string(), "Deployment b/a");
    }
}
