//! Which settings an upgrade brings the nodes of a cluster, kept as a ConfigMap in the cluster from before the first node gets them.

use std::collections::BTreeSet;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::applied::NAMESPACE;

/// The name of the ConfigMap.
pub const CONFIG_MAP: &str = "kubexm-settings";
/// Annotation of a node: of the attempt that has brought it its settings.
pub const ANNOTATION: &str = "kubexm.io/settings";
const SETTINGS: &str = "settings";
const ATTEMPT: &str = "attempt";
const NODES: &str = "nodes";

/// What an upgrade has begun to bring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WantedSettings {
    /// Of the settings.
    pub settings: Digest,
    /// Which attempt to bring them, as [`ANNOTATION`] has it: a node that has had these settings before may have had others since.
    pub attempt: String,
    /// The nodes that did not have them.
    pub nodes: BTreeSet<String>,
}

impl WantedSettings {
    /// The ConfigMap.
    pub fn to_config_map(&self) -> Value {
        let nodes: Vec<&str> = self.nodes.iter().map(String::as_str).collect();
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": CONFIG_MAP,
                "namespace": NAMESPACE,
                "labels": {"app.kubernetes.io/managed-by": "kubexm"},
            },
            "data": {SETTINGS: self.settings.to_string(), ATTEMPT: self.attempt, NODES: nodes.join(" ")},
        })
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is not as kubexm writes it, as text for people.
    pub fn of_config_map(object: &Value) -> Result<Self, String> {
        let field = |name: &str| object["data"][name].as_str().ok_or_else(|| format!("{CONFIG_MAP} has no {name}"));
        let settings = field(SETTINGS)?.parse().map_err(|error| format!("{CONFIG_MAP}: {error}"))?;
        let nodes = field(NODES)?.split_whitespace().map(str::to_owned).collect();
        Ok(Self { settings, attempt: field(ATTEMPT)?.to_owned(), nodes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_other_text_is_named() {
        let nodes = ["cp1", "w1"].map(str::to_owned).into();
        let wanted = WantedSettings { settings: Digest::of("settings"), attempt: "1".to_owned(), nodes };
        assert_eq!(WantedSettings::of_config_map(&wanted.to_config_map()), Ok(wanted.clone()));
        let none = WantedSettings { nodes: BTreeSet::new(), ..wanted };
        assert_eq!(WantedSettings::of_config_map(&none.to_config_map()), Ok(none));
        for (data, named) in
            [(json!({}), "no settings"), (json!({"settings": "x", "attempt": "1", "nodes": ""}), "kubexm-settings: ")]
        {
            let error = WantedSettings::of_config_map(&json!({"data": data})).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
