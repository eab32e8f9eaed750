//! Objects of an add-on, namespace by namespace; and their removal, which spares what holds data or objects of others.

use std::collections::BTreeMap;

use kubexm_charts::objects::{Identity, list};
use serde_json::Value;

use crate::kube::{apis, kubectl};
use crate::{Machine, OpError};

/// What every namespace has by itself.
const OF_EVERY_NAMESPACE: [&str; 2] = ["configmap/kube-root-ca.crt", "serviceaccount/default"];
/// Kinds that tell what happened, and are nobody's.
const TRACES: [&str; 2] = ["events", "events.events.k8s.io"];
pub(crate) const CRD: &str = "CustomResourceDefinition";

/// The objects by their namespaces; those that name none go into `default`. kubectl gets one namespace at a time, and
/// refuses objects of another.
pub(crate) fn by_namespace(objects: impl IntoIterator<Item = Value>, default: &str) -> BTreeMap<String, Vec<Value>> {
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for object in objects {
        let namespace = Identity::of(&object).namespace;
        let namespace = if namespace.is_empty() { default.to_owned() } else { namespace };
        all.entry(namespace).or_default().push(object);
    }
    all
}

/// Whether its name may be an argument. A chart says what its objects are called: what no object can be called would be an option of kubectl.
pub(crate) fn can_be_named(object: &Identity) -> bool {
    object.name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Removes definitions of which there are no objects, and namespaces in which there is nothing.
pub(crate) fn remove_unused(machine: &Machine, kept: &[Identity]) -> Result<(), OpError> {
    for object in kept.iter().filter(|object| can_be_named(object)) {
        match object.kind.as_str() {
            CRD => remove_unused_crd(machine, &object.name)?,
            "Namespace" => remove_unused_namespace(machine, &object.name)?,
            _ => {}
        }
    }
    Ok(())
}

fn remove_unused_crd(machine: &Machine, name: &str) -> Result<(), OpError> {
    let objects = machine.try_run(&kubectl(["get", "--all-namespaces", "--output=name", name]))?;
    // One that does not answer may have objects.
    if objects.code != 0 || !objects.stdout().trim().is_empty() {
        return Ok(());
    }
    machine
        .run(&kubectl(["delete", "--ignore-not-found", "--request-timeout=0", "--timeout=90s", "crd", name]))
        .map(drop)
}

/// Removes a namespace in which there is nothing but what every namespace has.
pub(crate) fn remove_unused_namespace(machine: &Machine, name: &str) -> Result<(), OpError> {
    let (mut kinds, complete) = apis::in_namespaces(machine)?;
    if !complete {
        // There may be objects of a kind that nobody answers for now.
        return Ok(());
    }
    kinds.retain(|kind| !TRACES.contains(&kind.as_str()));
    let args = ["get", "--ignore-not-found", "--output=name", "--namespace", name];
    let there = machine.run(&kubectl(args).arg(kinds.join(",")))?.stdout();
    if there.lines().any(|line| !OF_EVERY_NAMESPACE.contains(&line.trim())) {
        return Ok(());
    }
    // Until it is gone, nothing can be installed into it again.
    machine
        .run(&kubectl(["delete", "--ignore-not-found", "--request-timeout=0", "--timeout=90s", "namespace", name]))
        .map(drop)
}

/// Deletes objects that hold nothing of others; a kind that is no longer served has none.
pub(crate) fn delete(
    machine: &Machine,
    default: &str,
    objects: impl IntoIterator<Item = Value>,
) -> Result<(), OpError> {
    let own: Vec<Value> = objects.into_iter().filter(|object| !Identity::of(object).is_kept()).collect();
    if own.is_empty() {
        return Ok(());
    }
    let served = apis::served(machine)?;
    let known = own.into_iter().filter(|object| served.iter().any(|api| api.is_of(&Identity::of(object))));
    for (namespace, objects) in by_namespace(known, default) {
        let args = ["delete", "--ignore-not-found", "--wait=false", "--namespace", &namespace, "--filename", "-"];
        machine.run(&kubectl(args).stdin(list(&objects)))?;
    }
    Ok(())
}
