//! Objects as texts: how the fake kubectl reads, compares and prints them.

use serde_json::{Value, json};

/// An object with the fields that the API server adds. Text that is not JSON is kept as a text.
pub(super) fn with_server_fields(key: &str, document: &str) -> Value {
    let (kind, name) = key.split_once('/').unwrap_or((key, ""));
    let whole = || json!({"kind": kind, "metadata": {"name": name}, "document": document});
    let mut object = serde_json::from_str(document).unwrap_or_else(|_| whole());
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.insert(field.to_owned(), "of the server".into());
        }
        metadata.insert("managedFields".to_owned(), json!([{"manager": "kubexm"}]));
    }
    if let Some(fields) = object.as_object_mut() {
        fields.insert("status".to_owned(), json!({}));
    }
    object
}

/// A document as it is kept: without what the server has added when it was read.
pub(super) fn without_server_fields(document: String) -> String {
    let Ok(mut object) = serde_json::from_str::<Value>(&document) else { return document };
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| {
            !["uid", "resourceVersion", "creationTimestamp", "managedFields"].contains(&name.as_str())
        });
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object.to_string()
}

/// `Kind/name` and text of every document, and of each item of a list.
pub(super) fn documents(text: &str) -> impl Iterator<Item = (String, String)> + '_ {
    text.split("\n---").map(str::trim).filter(|document| !document.is_empty()).flat_map(|document| {
        if let Ok(object) = serde_json::from_str::<Value>(document) {
            return match object.get("items").and_then(Value::as_array) {
                Some(items) => items.iter().map(of_json).collect(),
                None => vec![of_json(&object)],
            };
        }
        let find =
            |prefix: &str| document.lines().find_map(|line| line.strip_prefix(prefix)).unwrap_or_default().trim();
        vec![(format!("{}/{}", find("kind:"), find("  name:")), document.to_owned())]
    })
}

pub(super) fn of_json(object: &Value) -> (String, String) {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    let key = format!("{}/{}", text("/kind").unwrap_or_default(), text("/metadata/name").unwrap_or_default());
    (key, text("/document").map_or_else(|| object.to_string(), str::to_owned))
}

/// The same object, whether it names its namespace or is given one by `--namespace`.
pub(super) fn without_namespace(document: &str) -> String {
    let Ok(mut object) = serde_json::from_str::<Value>(document) else { return document.to_owned() };
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("namespace");
    }
    object.to_string()
}

/// The name of the file in which kubectl compares an object: group, version, kind, namespace and name.
pub(super) fn file_name(document: &str, namespace: &str) -> String {
    let object: Value = serde_json::from_str(document).unwrap_or_default();
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let namespace = if text("/kind") == "Namespace" { "" } else { namespace };
    format!("{}.{}.{namespace}.{}", text("/apiVersion").replace('/', "."), text("/kind"), text("/metadata/name"))
}
