//! The record of what an add-on has applied: a ConfigMap of the cluster, so that every control plane and every later bundle finds it.

use std::collections::BTreeSet;

use kubexm_charts::objects::Identity;
use kubexm_plan::op::{Inventory, Manifests};
use serde_json::{Value, json};

use crate::kube::apis::Api;
use crate::kube::objects::{FORCE, on};
use crate::kube::{self, kubectl};
use crate::{Machine, OpError};

const NAMESPACE: &str = "kube-system";
const KEY: &str = "inventory";
/// All of them, by the API server's path.
pub(crate) const RECORDS: &str =
    "/api/v1/namespaces/kube-system/configmaps?labelSelector=app.kubernetes.io%2Fmanaged-by%3Dkubexm";
/// Of the ConfigMaps' names.
const PREFIX: &str = "kubexm-addon-";

fn config_map(op: &Manifests) -> String {
    format!("{PREFIX}{}", op.name)
}

/// The record; none if the add-on was never applied.
pub(super) fn read(machine: &Machine, op: &Manifests) -> Result<Option<Inventory>, OpError> {
    let name = config_map(op);
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}");
    let Some(object) = kube::raw(machine, &path)? else { return Ok(None) };
    let text = object["data"][KEY].as_str().unwrap_or_default();
    serde_json::from_str(text).map(Some).map_err(|error| {
        OpError::other(format!(
            "ConfigMap {NAMESPACE}/{name} is not as kubexm writes it ({error}); it lists the objects of add-on {}: restore it, or delete \
             it if nothing of an earlier version is left",
            op.name
        ))
    })
}

/// Objects that other add-ons have recorded, too.
pub(super) fn of_others(machine: &Machine, op: &Manifests) -> Result<Vec<Value>, OpError> {
    let records = kube::raw(machine, RECORDS)?.unwrap_or_default();
    let all = records["items"].as_array().into_iter().flatten().filter_map(of_record);
    let others = all.filter(|(name, _)| *name != op.name).filter_map(|(_, inventory)| inventory.ok());
    Ok(others.flat_map(|inventory| inventory.objects).collect())
}

/// The name of an add-on, and its record or why that cannot be read; none if the ConfigMap is another one.
pub(crate) fn of_record(object: &Value) -> Option<(String, Result<Inventory, String>)> {
    let name = object["metadata"]["name"].as_str()?.strip_prefix(PREFIX)?;
    let text = object["data"][KEY].as_str().unwrap_or_default();
    let inventory = serde_json::from_str(text)
        .map_err(|error| format!("ConfigMap {NAMESPACE}/{PREFIX}{name} is not as kubexm writes it: {error}"));
    Some((name.to_owned(), inventory))
}

pub(super) fn write(machine: &Machine, op: &Manifests, inventory: &Inventory) -> Result<(), OpError> {
    let text = serde_json::to_string(inventory)
        .map_err(|error| OpError::other(format!("a list of objects cannot be written as JSON: {error}")))?;
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": config_map(op),
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "kubexm"},
        },
        "data": {KEY: text},
    });
    machine.run(&on("apply", FORCE, &object.to_string())).map(drop)
}

pub(super) fn remove(machine: &Machine, op: &Manifests) -> Result<(), OpError> {
    let args = ["delete", "--ignore-not-found", "--namespace", NAMESPACE, "configmap", &config_map(op)];
    machine.run(&kubectl(args)).map(drop)
}

/// The record of these objects. `served`: which kinds are in namespaces.
pub(super) fn of(op: &Manifests, objects: &[Value], served: &[Api]) -> Inventory {
    let objects = objects.iter().map(|object| stub(object, op, served)).collect();
    Inventory { blob: Some(op.blob), namespace: op.namespace.clone(), objects }
}

/// What identifies an object, as an object.
fn stub(object: &Value, op: &Manifests, served: &[Api]) -> Value {
    let identity = Identity::of(object);
    let mut metadata = json!({"name": identity.name});
    let in_namespace = served.iter().find(|api| api.is_of(&identity)).is_none_or(|api| api.namespaced);
    if in_namespace {
        let namespace = if identity.namespace.is_empty() { &op.namespace } else { &identity.namespace };
        metadata["namespace"] = namespace.as_str().into();
    }
    json!({"apiVersion": object["apiVersion"], "kind": identity.kind, "metadata": metadata})
}

/// Every object of both, once; of no version.
pub(super) fn both(one: &Inventory, other: &Inventory) -> Inventory {
    let mut objects = one.objects.clone();
    objects.extend(without(other, &one.objects));
    Inventory { blob: None, namespace: one.namespace.clone(), objects }
}

/// The objects of a record that are not among these.
pub(super) fn without(inventory: &Inventory, others: &[Value]) -> Vec<Value> {
    let others: BTreeSet<Identity> = others.iter().map(Identity::of).collect();
    inventory.objects.iter().filter(|object| !others.contains(&Identity::of(object))).cloned().collect()
}

#[cfg(test)]
mod tests {
    use kubexm_spec::Digest;

    use super::*;

    fn op() -> Manifests {
        Manifests {
            name: "a".to_owned(),
            namespace: "apps".to_owned(),
            blob: Digest::of("a"),
            in_plan: false,
            slots: Vec::new(),
            wait_s: 1,
        }
    }

    fn object(kind: &str, namespace: Option<&str>) -> Value {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, "data": {}});
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = namespace.into();
        }
        object
    }

    #[test]
    fn an_object_is_recorded_with_the_namespace_that_it_is_in() {
        let api = |kind: &str, namespaced| {
            let (version, resource) = ("v1".to_owned(), format!("{}s", kind.to_lowercase()));
            Api { version, kind: kind.to_owned(), namespaced, resource }
        };
        let served = [api("ConfigMap", true), api("Node", false)];
        let all =
            of(&op(), &[object("ConfigMap", None), object("ConfigMap", Some("b")), object("Node", None)], &served);
        let namespaces: Vec<&Value> = all.objects.iter().map(|object| &object["metadata"]["namespace"]).collect();
        assert_eq!(namespaces, [&json!("apps"), &json!("b"), &Value::Null]);
        assert!(all.objects.iter().all(|object| object["data"].is_null()), "no content, which may be secret");
    }

    #[test]
    fn while_one_version_takes_the_place_of_another_the_record_has_the_objects_of_both() {
        let of = |names: &[&str]| Inventory {
            blob: Some(Digest::of(names.concat())),
            namespace: "apps".to_owned(),
            objects: names
                .iter()
                .map(|name| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}))
                .collect(),
        };
        let (new, old) = (of(&["a", "b"]), of(&["b", "c"]));
        let both = both(&new, &old);
        assert_eq!((both.blob, both.objects.len()), (None, 3));
        let gone: Vec<String> =
            without(&old, &new.objects).iter().map(|object| object["metadata"]["name"].to_string()).collect();
        assert_eq!(gone, ["\"c\""]);
    }
}
