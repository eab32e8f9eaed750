//! A cluster has one storage class for claims that name none: with two, which one a claim gets depends on which is newer. Pure.

use kubexm_manifests::chart_storage;
use kubexm_spec::Cluster;
use serde_json::Value;

const KIND: &str = "StorageClass";
/// The second one is of before Kubernetes 1.6, and still read.
const DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// What is wrong if `spec.storage` has a default class and an add-on brings another one.
pub(super) fn second_default(cluster: &Cluster, addon: &str, objects: &[Value]) -> Option<String> {
    let own = cluster.storage.default_class()?;
    if chart_storage::of_release(cluster, addon).is_some() {
        return None;
    }
    let is_default = |object: &&Value| {
        let annotations = &object["metadata"]["annotations"];
        object["kind"] == KIND && DEFAULT.iter().any(|name| annotations[*name] == "true")
    };
    let class = objects.iter().find(is_default)?["metadata"]["name"].as_str().unwrap_or_default();
    Some(format!(
        "add-on {addon} brings the default storage class {class}, and spec.storage.{key} has {own} as the default: write `defaultClass: \
         false` in spec.storage.{key}, or let the class of the add-on be none",
        key = own.key(),
        own = own.class()
    ))
}

#[cfg(test)]
mod tests {
    use kubexm_spec::cluster::OpenEbs;
    use serde_json::json;

    use super::*;

    fn class(annotation: &str, value: &str) -> Value {
        json!({"kind": KIND, "metadata": {"name": "fast", "annotations": {annotation: value}}})
    }

    #[test]
    fn two_default_classes_are_refused_by_name() {
        let mut cluster = Cluster::named("demo");
        let second = |cluster: &Cluster, addon: &str, objects: &[Value]| second_default(cluster, addon, objects);
        assert_eq!(second(&cluster, "ceph", &[class(DEFAULT[0], "true")]), None, "the only one");
        cluster.storage.open_ebs = Some(OpenEbs::default());
        for annotation in DEFAULT {
            let said = second(&cluster, "ceph", &[json!({"kind": "ConfigMap"}), class(annotation, "true")]).unwrap();
            for part in
                ["add-on ceph", "class fast", "openebs-hostpath", "`defaultClass: false` in spec.storage.openebs"]
            {
                assert!(said.contains(part), "{part}: {said}");
            }
        }
        assert_eq!(second(&cluster, "ceph", &[class(DEFAULT[0], "false")]), None);
        assert_eq!(second(&cluster, "openebs", &[class(DEFAULT[0], "true")]), None, "its own");
        cluster.storage.open_ebs = Some(OpenEbs { default_class: false, ..OpenEbs::default() });
        assert_eq!(second(&cluster, "ceph", &[class(DEFAULT[0], "true")]), None);
    }
}
