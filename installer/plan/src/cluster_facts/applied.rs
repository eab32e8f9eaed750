//! The record of what was applied to a cluster, kept as a ConfigMap in the cluster.

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BundleRecord, ClusterId};

/// The schema of [`AppliedCluster`].
pub const SCHEMA: &str = "kubexm.io/applied/v1";
/// The namespace of the ConfigMap.
pub const NAMESPACE: &str = "kube-system";
/// The name of that ConfigMap.
pub const CONFIG_MAP: &str = "kubexm-cluster";
/// The name of the one that says when nodes were upgraded last, and to what.
pub const UPGRADED: &str = "kubexm-upgraded";
/// The key of the document in the ConfigMap.
pub const KEY: &str = "applied.json";

/// What the last successful run has applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppliedCluster {
    /// [`SCHEMA`]; a document with another one is not read.
    pub schema: String,
    /// `metadata.name`.
    pub name: String,
    /// The cluster's id; none for a cluster that was created before ids existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ClusterId>,
    /// `v1.34.4`.
    pub kubernetes: String,
    /// Digest of the bytes of cluster.yaml.
    pub cluster_sha256: Digest,
    /// cluster.yaml with every default written out, without secrets ([`recorded`]).
    pub cluster: Value,
    /// The bundle and its signers.
    pub bundle: BundleRecord,
    /// Name and version of the program that wrote the record.
    pub program: String,
}

/// Fields of cluster.yaml that name the source of a secret: of no use inside the cluster.
const SECRET_SOURCES: [&str; 2] = ["From", "privateKeyPath"];
/// Fields of a host that describe the connection to it, which differ between operators.
const CONNECTION: [&str; 3] = ["port", "agent", "via"];

/// The document of a cluster.yaml without the fields that name sources of secrets, at any depth, and without those that
/// describe connections to hosts: two operators who install the same cluster write the same record.
pub fn recorded(mut document: Value) -> Value {
    let hosts = document.pointer_mut("/spec/hosts").and_then(Value::as_array_mut);
    for host in hosts.into_iter().flatten().filter_map(Value::as_object_mut) {
        host.retain(|key, _| !CONNECTION.contains(&key.as_str()));
    }
    without_secret_sources(document)
}

fn without_secret_sources(document: Value) -> Value {
    match document {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, _)| !SECRET_SOURCES.iter().any(|end| key.ends_with(end)));
            Value::Object(kept.map(|(key, value)| (key, without_secret_sources(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_secret_sources).collect()),
        other => other,
    }
}

impl AppliedCluster {
    /// Reads the ConfigMap as returned by the API server.
    ///
    /// # Errors
    /// A sentence for people: the ConfigMap has no such document, or one with another schema.
    pub fn of_config_map(object: &Value) -> Result<Self, String> {
        let place = format!("the ConfigMap {CONFIG_MAP} in {NAMESPACE}");
        let text = object.pointer("/data").and_then(|data| data.get(KEY)).and_then(Value::as_str);
        let text = text.ok_or_else(|| format!("{place} has no {KEY}"))?;
        let wrong = |error: serde_json::Error| format!("{KEY} of {place} cannot be read: {error}");
        let value: Value = serde_json::from_str(text).map_err(wrong)?;
        match value.get("schema").and_then(Value::as_str) {
            Some(SCHEMA) => serde_json::from_value(value).map_err(wrong),
            other => Err(format!(
                "{KEY} of {place} has the schema {:?}, and this program reads {SCHEMA}",
                other.unwrap_or("none")
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn applied() -> AppliedCluster {
        AppliedCluster {
            schema: SCHEMA.to_owned(),
            name: "demo".to_owned(),
            id: Some(ClusterId::from_random([1; 16])),
            kubernetes: "v1.34.4".to_owned(),
            cluster_sha256: Digest::of("yaml"),
            cluster: json!({"kind": "Cluster"}),
            bundle: BundleRecord { manifest: Digest::of("m"), signers: Default::default(), date: None, sequence: None },
            program: "kubexm-install 0.1.0".to_owned(),
        }
    }

    #[test]
    fn it_is_read_from_the_config_map_and_another_schema_is_not() {
        let map = |text: String| json!({"data": {KEY: text}});
        let text = serde_json::to_string(&applied()).unwrap();
        assert_eq!(AppliedCluster::of_config_map(&map(text.clone())), Ok(applied()));
        let later = text.replace("applied/v1", "applied/v9");
        assert!(AppliedCluster::of_config_map(&map(later)).unwrap_err().contains("applied/v9"));
        assert!(AppliedCluster::of_config_map(&map("{".to_owned())).unwrap_err().contains("cannot be read"));
        assert!(AppliedCluster::of_config_map(&json!({"data": {}})).unwrap_err().contains("has no applied.json"));
    }

    #[test]
    fn sources_of_secrets_and_ways_to_connect_are_left_out() {
        let document = json!({"spec": {
            "hosts": [{"name": "a", "passwordFrom": {"env": "X"}, "port": 22, "via": [{"address": "b"}]}],
            "registry": {"port": 5000},
            "kubernetes": {"audit": {"webhook": {"kubeconfigFrom": {"file": "/f"}}}},
        }});
        let wanted = json!({"spec": {
            "hosts": [{"name": "a"}],
            "registry": {"port": 5000},
            "kubernetes": {"audit": {"webhook": {}}},
        }});
        assert_eq!(recorded(document), wanted);
    }
}
