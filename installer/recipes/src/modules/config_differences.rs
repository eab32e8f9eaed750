//! What differs between two texts of kubeadm's configuration.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Most characters of a value that are shown.
const LONGEST: usize = 80;

/// What differs between two texts of kubeadm's configuration, as `networking.podSubnet: OLD -> NEW`. None when one of them is not
/// what kubexm writes.
pub fn differences(old: &str, new: &str) -> Option<Vec<String>> {
    let (old, new) = (values(old)?, values(new)?);
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let value = |of: &BTreeMap<String, Value>, name: &String| of.get(name).map_or("unset".to_owned(), plain);
    let differing = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    Some(differing.map(|name| format!("{name}: {} -> {}", value(&old, name), value(&new, name))).collect())
}

/// Every value of a text by its path. None for what is no YAML, and where the paths are too long.
pub fn values(text: &str) -> Option<BTreeMap<String, Value>> {
    settings(text).map(|settings| settings.values)
}

/// Most bytes of all paths of a text together; those of a cluster have some ten thousand. The text is a host's, and each of its
/// values has the keys above it in its path: a hundred thousand values below keys of megabytes would be a terabyte.
const LONGEST_PATHS: usize = 1 << 20;

/// Values by their paths.
struct Settings {
    values: BTreeMap<String, Value>,
    /// How many bytes further paths may have.
    room: usize,
}

impl Settings {
    /// The path of a field; none where there is no room for it.
    fn below(&mut self, path: &str, key: &str) -> Option<String> {
        self.room = self.room.checked_sub(path.len() + 1 + key.len())?;
        Some(if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") })
    }
}

/// Every value of all documents by its path. None for what is no YAML, and where the paths are longer than [`LONGEST_PATHS`].
fn settings(text: &str) -> Option<Settings> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).ok()?;
    let mut found = Settings { values: BTreeMap::new(), room: LONGEST_PATHS };
    for document in &documents {
        let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default();
        // Most settings of cluster.yaml become part of ClusterConfiguration: its paths have no prefix.
        let prefix = if kind == "ClusterConfiguration" { "" } else { kind };
        flatten(prefix, document, &mut found)?;
    }
    Some(found)
}

fn flatten(path: &str, value: &Value, into: &mut Settings) -> Option<()> {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let path = into.below(path, key)?;
                flatten(&path, value, into)?;
            }
        }
        // Flags of components are keyed by name: an added flag does not change the paths of the others.
        Value::Array(items)
            if !items.is_empty() && items.iter().all(|item| item.get("name").is_some_and(Value::is_string)) =>
        {
            for item in items {
                let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
                let path = into.below(path, name)?;
                into.values.insert(path, item.get("value").unwrap_or(item).clone());
            }
        }
        other => {
            into.values.insert(path.to_owned(), other.clone());
        }
    }
    Some(())
}

/// The value for a message. It comes from the host: at most [`LONGEST`] characters of it.
fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_with_both_values() {
        let old = "---\nkind: ClusterConfiguration\nkubernetesVersion: v1.34.4\nnetworking:\n  podSubnet: 10.244.0.0/16\n\
                   apiServer:\n  extraArgs:\n  - name: audit-log-maxage\n    value: \"30\"\n\
                   ---\nkind: KubeletConfiguration\nmaxPods: 110\n";
        let new = "---\nkind: ClusterConfiguration\nkubernetesVersion: v1.34.4\nnetworking:\n  podSubnet: 10.245.0.0/16\n\
                   apiServer:\n  extraArgs:\n  - name: profiling\n    value: \"false\"\n  - name: audit-log-maxage\n    value: \"30\"\n\
                   ---\nkind: KubeletConfiguration\nmaxPods: 250\n";
        assert_eq!(
            differences(old, new).unwrap_or_default(),
            [
                "KubeletConfiguration.maxPods: 110 -> 250",
                "apiServer.extraArgs.profiling: unset -> false",
                "networking.podSubnet: 10.244.0.0/16 -> 10.245.0.0/16",
            ]
        );
        assert_eq!(differences(new, new), Some(Vec::new()));
        assert_eq!(differences("{", new), None, "what cannot be compared is not the same");
        let long = format!("---\nkind: ClusterConfiguration\nclusterName: {}\n", "ä".repeat(5_000));
        let name = "---\nkind: ClusterConfiguration\nclusterName: demo\n";
        assert_eq!(differences(&long, name), Some(vec![format!("clusterName: {}… -> demo", "ä".repeat(LONGEST))]));
    }

    /// Each value's path has all the keys above it: what is some kilobytes as a text would be gigabytes of paths.
    #[test]
    fn the_paths_of_a_text_have_an_end() {
        let nested = |values: usize| {
            let mut text = String::new();
            for depth in 0..5 {
                text += &format!("{}{}:\n", " ".repeat(depth), "k".repeat(900));
            }
            let values: Vec<String> = (0..values).map(|number| format!("a{number}: 1")).collect();
            format!("{text}     {{{}}}\n", values.join(", "))
        };
        let few = settings(&nested(100)).expect("some settings").values;
        assert_eq!(few.len(), 100);
        assert!(few.keys().map(String::len).sum::<usize>() > 400_000, "as long as the keys above them");
        assert!(settings(&nested(1_000)).is_none());
        assert_eq!(differences(&nested(1_000), "kind: ClusterConfiguration\n"), None);
    }
}
