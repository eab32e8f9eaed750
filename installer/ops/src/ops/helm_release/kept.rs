//! What helm must not remove, though a chart has made it: volumes and claims, definitions of which there are objects,
//! namespaces in which there is something.
//!
//! In an upgrade helm looks at the annotation of the object itself, when it uninstalls at the manifest that it has kept: the
//! former is set before an upgrade, and from the latter these objects are taken out. Afterwards those that nobody uses go.

use std::collections::BTreeMap;

use kubexm_charts::objects::{Identity, list};
use kubexm_charts::stored::Revision;
use kubexm_plan::op::HelmRelease;
use serde_json::Value;

use super::look;
use crate::kube::kubectl;
use crate::{Machine, OpError};

/// helm does not remove an object with this annotation.
const POLICY: &str = "helm.sh/resource-policy=keep";
/// What every namespace has by itself.
const OF_EVERY_NAMESPACE: [&str; 2] = ["configmap/kube-root-ca.crt", "serviceaccount/default"];
/// Kinds that tell what happened, and are nobody's.
const TRACES: [&str; 2] = ["events", "events.events.k8s.io"];
const CRD: &str = "CustomResourceDefinition";

/// The objects by their namespaces; those that name none go into the release's. kubectl is told one namespace at a time, and
/// refuses objects of another.
pub(super) fn by_namespace(objects: Vec<Value>, release: &str) -> BTreeMap<String, Vec<Value>> {
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for object in objects {
        let namespace = Identity::of(&object).namespace;
        let namespace = if namespace.is_empty() { release.to_owned() } else { namespace };
        all.entry(namespace).or_default().push(object);
    }
    all
}

/// Before an upgrade: what the last revision made and must stay, if the next one does not name it.
pub(super) fn protect(machine: &Machine, op: &HelmRelease, last: Option<&Revision>) -> Result<(), OpError> {
    let Some(last) = last else { return Ok(()) };
    let objects = look::objects(&look::read(last)?)?.into_iter().filter(|object| Identity::of(object).is_kept());
    for (namespace, objects) in by_namespace(objects.collect(), &op.namespace) {
        let program = kubectl(["annotate", "--overwrite", "--namespace", &namespace, "--filename", "-", POLICY]);
        let program = program.stdin(list(&objects));
        let output = machine.try_run(&program)?;
        if output.code != 0 && !output.tail().contains("NotFound") {
            return Err(OpError::other(format!("`{program}` failed: {}", output.tail())));
        }
    }
    Ok(())
}

/// Takes what must stay out of the manifest by which helm uninstalls.
pub(super) fn take_out(machine: &Machine, op: &HelmRelease, last: &Revision) -> Result<Vec<Identity>, OpError> {
    let release = look::read(last)?;
    let kept: Vec<Identity> = look::objects(&release)?.iter().map(Identity::of).filter(Identity::is_kept).collect();
    if kept.is_empty() {
        return Ok(kept);
    }
    let secret = release.without(Identity::is_kept).map_err(|error| OpError::other(error.to_string()))?;
    let program = kubectl(["replace", "--namespace", &op.namespace, "--filename", "-"]).stdin(secret.to_string());
    machine.run(&program)?;
    Ok(kept)
}

/// The definitions in a rendering that the cluster does not have yet.
pub(super) fn absent_crds(machine: &Machine, rendered: &[Value]) -> Result<Vec<Identity>, OpError> {
    let crds = rendered.iter().map(Identity::of).filter(|object| object.kind == CRD && object.is_kept());
    let crds: Vec<Identity> = crds.collect();
    if crds.is_empty() {
        return Ok(crds);
    }
    let names = crds.iter().map(|crd| crd.name.clone());
    let there = machine.run(&kubectl(["get", "--ignore-not-found", "--output=name", "crd"]).args(names))?.stdout();
    let is_there = |crd: &Identity| there.lines().any(|line| line.rsplit('/').next() == Some(&*crd.name));
    Ok(crds.into_iter().filter(|crd| !is_there(crd)).collect())
}

/// Removes definitions of which there are no objects, and namespaces in which there is nothing.
pub(super) fn remove_unused(machine: &Machine, kept: &[Identity]) -> Result<(), OpError> {
    for object in kept {
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
    machine.run(&kubectl(["delete", "--ignore-not-found", "--timeout=90s", "crd", name])).map(drop)
}

/// Removes a namespace in which there is nothing but what every namespace has.
pub(super) fn remove_unused_namespace(machine: &Machine, name: &str) -> Result<(), OpError> {
    let kinds =
        machine.run(&kubectl(["api-resources", "--namespaced", "--verbs=list,delete", "--output=name"]))?.stdout();
    let kinds: Vec<&str> =
        kinds.lines().map(str::trim).filter(|kind| !kind.is_empty() && !TRACES.contains(kind)).collect();
    let args = ["get", "--ignore-not-found", "--output=name", "--namespace", name];
    let there = machine.run(&kubectl(args).arg(kinds.join(",")))?.stdout();
    if there.lines().any(|line| !OF_EVERY_NAMESPACE.contains(&line.trim())) {
        return Ok(());
    }
    // Until it is gone, nothing can be installed into it again.
    machine.run(&kubectl(["delete", "--ignore-not-found", "--timeout=90s", "namespace", name])).map(drop)
}

/// Deletes objects that nobody else uses, such as those of hooks.
pub(super) fn delete(machine: &Machine, op: &HelmRelease, objects: Vec<Value>) -> Result<(), OpError> {
    let own = objects.into_iter().filter(|object| !Identity::of(object).is_kept());
    for (namespace, objects) in by_namespace(own.collect(), &op.namespace) {
        let args = ["delete", "--ignore-not-found", "--wait=false", "--namespace", &namespace, "--filename", "-"];
        machine.run(&kubectl(args).stdin(list(&objects)))?;
    }
    Ok(())
}
