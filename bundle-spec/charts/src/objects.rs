//! Objects of a rendering: which they are, and which of them hold what is not the chart's own.

use serde_json::{Value, json};

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

/// The objects of a stream, those in lists one by one.
pub fn flattened(documents: Vec<Value>) -> Vec<Value> {
    let mut all = Vec::new();
    for mut document in documents {
        let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        match document.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) if is_list => all.extend(flattened(items)),
            Some(items) => {
                document["items"] = items;
                all.push(document);
            }
            None => all.push(document),
        }
    }
    all.retain(|object| object["kind"].is_string());
    all
}

/// As one list, which kubectl reads like a stream.
pub fn list(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_apart_and_what_has_a_field_named_items_is_not_one() {
        let documents = vec![
            json!({"kind": "List", "items": [{"kind": "A"}, {"kind": "BList", "items": [{"kind": "B"}]}]}),
            json!({"kind": "ConfigMap", "items": [{"key": "a"}]}),
            json!({"text": "no object"}),
        ];
        let kinds: Vec<String> = flattened(documents).iter().map(|object| object["kind"].to_string()).collect();
        assert_eq!(kinds, ["\"A\"", "\"B\"", "\"ConfigMap\""]);
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
