//! What a control plane is asked about the add-ons of its cluster, and its answer.

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::StepId;

/// The question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddonsAsk {
    /// Whether objects are compared with what was installed: each is asked for.
    #[serde(default)]
    pub compare: bool,
    /// Whether the kinds that the cluster serves are wanted.
    #[serde(default)]
    pub apis: bool,
    /// Whether their objects are wanted, too. The values of Secrets are replaced by [`masked`], with this salt, which nobody else knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<String>,
}

/// The most add-ons of an answer, several times what large clusters have.
pub const MOST: usize = 5_000;

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstalledAddons {
    /// Version of the API server, `v1.34.4`.
    pub kubernetes: String,
    /// What is served: `apps/v1`, `apps/v1/Deployment`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apis: Vec<String>,
    /// Releases of helm, whoever installed them, and add-ons of YAML; sorted by namespace and name.
    pub addons: Vec<InstalledAddon>,
    /// What is said of releases that are not among them, since there are too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_listed: Option<String>,
}

/// A release, or the objects of an add-on of YAML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstalledAddon {
    /// Of the release, or of its objects that name none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: InstalledKind,
    /// Whether kubexm has installed it.
    pub ours: bool,
    /// `deployed`, `failed`, `pending-upgrade`; of objects `applied`, or `changing` while one version takes the place of another.
    pub status: String,
    /// `web-1.2.3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<String>,
    /// Of the release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u32>,
    /// Hexadecimal digest of the chart's archive or of the file of objects, as far as the cluster has noted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Digest of the release's values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Digest>,
    /// Objects that are missing, or are not as they were installed, sorted; none if they were not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drifted: Option<Vec<String>>,
    /// Why they were not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_compared: Option<String>,
    /// Its objects as they were installed, if they were asked for and are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<Vec<Value>>,
}

/// End of the name by which the Secrets of an add-on are recorded. No add-on has a name with a dot.
const SECRETS: &str = ".secrets";

/// The name by which the Secrets of an add-on are recorded.
pub fn of_secrets(addon: &str) -> String {
    format!("{addon}{SECRETS}")
}

/// The add-on whose Secrets are recorded by this name; none if it is an add-on's own.
pub fn secrets_of(name: &str) -> Option<&str> {
    name.strip_suffix(SECRETS)
}

/// Steps of add-ons, and of what makes volumes, which is a release like theirs.
const STEPS: [&str; 2] = ["addons.", "storage."];

/// The add-on that a step installs or removes: `web` for `node1/addons.web.secrets`. None if it does something else.
pub fn of_step(id: &StepId) -> Option<&str> {
    let (_, step) = id.0.split_once('/')?;
    let name = STEPS.iter().find_map(|prefix| step.strip_prefix(prefix))?;
    Some(name.split('.').next().unwrap_or(name))
}

/// What is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum InstalledKind {
    /// A release of helm.
    Helm,
    /// Objects of YAML.
    Yaml,
    /// Secrets of an add-on, of which only the names are known.
    Secrets,
}

impl InstalledKind {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Helm => "helm",
            Self::Yaml => "yaml",
            Self::Secrets => "secrets",
        }
    }
}

/// An object with the values of a Secret replaced by something that is equal where they are, and says nothing of them. Its annotations are
/// among them: kubectl keeps the whole object in one.
pub fn masked(mut object: Value, salt: &str) -> Value {
    if object["kind"] != "Secret" {
        return object;
    }
    for field in ["/data", "/stringData", "/metadata/annotations"] {
        let map = object.pointer_mut(field).and_then(Value::as_object_mut);
        for value in map.into_iter().flat_map(|map| map.values_mut()) {
            *value = format!("(secret {})", &Digest::of(format!("{salt}\0{value}")).hex()[..12]).into();
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_step_names_its_add_on() {
        let of = |id: &str| of_step(&StepId(id.to_owned())).map(str::to_owned);
        assert_eq!(of("node1/addons.web.secrets").as_deref(), Some("web"));
        assert_eq!(of("node1/storage.openebs").as_deref(), Some("openebs"));
        assert_eq!(of("node1/store.fill"), None);
    }

    #[test]
    fn values_of_secrets_are_replaced_by_what_is_equal_where_they_are() {
        let secret = |value: &str| {
            let metadata = json!({"name": "a", "annotations": {"last-applied": format!("{{\"k\": \"{value}\"}}")}});
            json!({"kind": "Secret", "metadata": metadata, "data": {"k": value}, "stringData": {"k": value}})
        };
        let (one, same, other) = (masked(secret("v"), "s"), masked(secret("v"), "s"), masked(secret("w"), "s"));
        assert_eq!(one, same);
        assert_ne!(one["data"], other["data"]);
        assert_ne!(one["stringData"], other["stringData"]);
        assert_ne!(one, masked(secret("v"), "another salt"));
        assert!(!one.to_string().contains("\"v\"") && !one.to_string().contains("\\\"v\\\""), "{one}");
        let map = json!({"kind": "ConfigMap", "data": {"k": "v"}});
        assert_eq!(masked(map.clone(), "s"), map);
    }
}
