//! The JSON Schema of cluster.yaml, of the same description that the reader checks keys by.

use std::collections::BTreeMap;

use serde_json::Value;

use super::show::document;
use crate::yaml::schema as of;

/// A cluster in which every part is there, and nothing more is written of it than must be: what it has beyond that are the
/// defaults of the format.
const EVERY_PART: &str = include_str!("every-part.yaml");

/// The JSON Schema (draft 2020-12) that `kubexm-bundle schema` prints.
pub fn schema() -> Value {
    let defaults = defaults();
    of("KubeXM cluster.yaml", &super::FILE, &|path: &str| defaults.get(path).cloned())
}

/// Defaults by path, lists without their numbers: `spec.hosts[].port`.
fn defaults() -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    // A test asks that the text can be read: without it the schema would only lack its defaults.
    if let Ok(read) = super::read(EVERY_PART) {
        let is_default = |path: &str| !read.written.contains(path);
        leaves(&document(&read.cluster), String::new(), String::new(), &is_default, &mut all);
    }
    all
}

fn leaves(
    value: &Value,
    path: String,
    place: String,
    is_default: &impl Fn(&str) -> bool,
    all: &mut BTreeMap<String, Value>,
) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let below = |path: &str| if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(value, below(&path), below(&place), is_default, all);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (index, item) in items.iter().enumerate() {
                leaves(item, format!("{path}[{index}]"), format!("{place}[]"), is_default, all);
            }
        }
        value if is_default(&path) => {
            all.insert(place, value.clone());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_format() {
        let read = super::super::read(EVERY_PART).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(read.cluster.kubernetes.is_some());
        let defaults = defaults();
        for (path, value) in [
            ("spec.hosts[].port", "22"),
            ("spec.hosts[].via[].user", "\"root\""),
            ("spec.kubernetes.maxPods", "110"),
            ("spec.kubernetes.audit.maxAge", "30"),
            ("spec.kubernetes.nodelocaldns.address", "\"169.254.25.10\""),
            ("spec.network.podCidr", "\"10.233.64.0/18\""),
            ("spec.addons[].namespace", "\"default\""),
            ("spec.storage.openebs.basePath", "\"/var/openebs/local\""),
            ("spec.bundle.platforms", "[\"linux/amd64\"]"),
        ] {
            assert_eq!(defaults.get(path).map(Value::to_string).as_deref(), Some(value), "{path}");
        }
        assert!(!defaults.contains_key("spec.hosts[].name"), "{defaults:?}");
    }
}
