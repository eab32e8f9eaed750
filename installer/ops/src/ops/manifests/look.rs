//! The objects of an add-on: as the bundle has them, and as the cluster has them.

use std::collections::BTreeSet;
use std::io::Read;
use std::time::{Duration, Instant};

use kubexm_charts::documents;
use kubexm_charts::objects::{Identity, flattened, list};
use kubexm_plan::op::{FoundManifests, Inventory, Manifests};
use kubexm_spec::Digest;
use serde_json::Value;

use super::inventory;
use crate::kube::apis::{self, Api};
use crate::kube::compare::Comparison;
use crate::kube::objects::{FORCE, MANAGER, is_secret, on, own, printed};
use crate::kube::removal::by_namespace;
use crate::kube::{self, kubectl};
use crate::ops::helm_release::drift::changed;
use crate::{Machine, OpError};

/// How long an op compares the objects of an add-on.
const OF_AN_OP: Duration = Duration::from_secs(120);

/// The objects of the bundle; none if the node's store does not have their file yet.
pub(super) fn wanted(machine: &Machine, op: &Manifests) -> Result<Option<Vec<Value>>, OpError> {
    if op.in_plan {
        return read(op, machine.text(&op.blob)?).map(Some);
    }
    let path = machine.blob(&op.blob);
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpError::path("open", &path)(error)),
    };
    let mut text = String::new();
    file.take(documents::STREAM_LIMIT).read_to_string(&mut text).map_err(OpError::path("read", &path))?;
    read(op, &text).map(Some)
}

/// The same with the values of the slots.
pub(super) fn filled(machine: &Machine, op: &Manifests) -> Result<Option<Vec<Value>>, OpError> {
    match op.slots.as_slice() {
        [] => wanted(machine, op),
        slots => read(op, &machine.filled_in_base64(&op.blob, slots)?).map(Some),
    }
}

fn read(op: &Manifests, text: &str) -> Result<Vec<Value>, OpError> {
    let documents = documents::read(text).map_err(|error| {
        OpError::other(format!("the YAML of add-on {} cannot be read: {}: {}", op.name, error.place, error.problem))
    })?;
    Ok(flattened(documents))
}

pub(super) fn has_namespace(machine: &Machine, namespace: &str) -> Result<bool, OpError> {
    Ok(kube::raw(machine, &format!("/api/v1/namespaces/{namespace}"))?.is_some())
}

/// Whether an apply would change nothing. A kind that is not served yet cannot be compared.
pub(super) fn is_same(machine: &Machine, op: &Manifests, objects: &[Value]) -> Result<bool, OpError> {
    let (directly, end) = (Comparison::of(machine)?, Instant::now() + OF_AN_OP);
    for (namespace, objects) in by_namespace(objects.iter().cloned(), &op.namespace) {
        if let Some(directly) = &directly {
            let found = directly.objects((MANAGER, &namespace), &objects, end)?;
            if found.late || !(found.changed.is_empty() && found.incomparable.is_empty()) {
                return Ok(false);
            }
            continue;
        }
        let diff = on("diff", FORCE, &list(&objects)).args(["--namespace", &namespace]);
        if machine.try_run(&diff)?.code != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Names of the objects that an apply would change or create, in kubectl's form (`apps.v1.Deployment.default.web`).
/// `end`: then it is given up.
pub(super) fn differing(
    machine: &Machine,
    op: &Manifests,
    objects: &[Value],
    end: Instant,
) -> Result<Vec<String>, OpError> {
    let (mut names, directly) = (Vec::new(), Comparison::of(machine)?);
    for (namespace, objects) in by_namespace(objects.iter().cloned(), &op.namespace) {
        if let Some(directly) = &directly {
            let found = directly.objects((MANAGER, &namespace), &objects, end)?;
            let why = if found.late { "there was no time left".to_owned() } else { found.incomparable.join("; ") };
            if !why.is_empty() {
                return Err(OpError::other(format!("the objects of add-on {} cannot be compared: {why}", op.name)));
            }
            names.extend(found.changed);
            continue;
        }
        let diff = on("diff", FORCE, &list(&objects)).args(["--namespace", &namespace]);
        let found = machine.try_run(&diff)?;
        if found.code > 1 {
            return Err(OpError::other(format!("`{diff}` failed: {}", found.tail())));
        }
        names.extend(changed(&found.stdout()));
    }
    Ok(names)
}

/// Names of the recorded objects that do not exist.
pub(super) fn missing(machine: &Machine, inventory: &Inventory) -> Result<Vec<String>, OpError> {
    let op = Manifests::none(String::new(), inventory.namespace.clone(), 0);
    let served = apis::served(machine)?;
    let found = there(machine, &op, inventory.objects.clone(), &served)?;
    let found: BTreeSet<Identity> = found.iter().map(Identity::of).collect();
    let all = inventory.objects.iter().map(Identity::of);
    Ok(all.filter(|object| !found.contains(object)).map(|object| object.to_string()).collect())
}

/// What exists of these objects and of those of an earlier version: the state before a change.
pub(super) fn before(
    machine: &Machine,
    op: &Manifests,
    objects: &[Value],
    inventory: Option<Inventory>,
) -> Result<FoundManifests, OpError> {
    let served = apis::served(machine)?;
    let all = of_both(op, objects, inventory.as_ref(), &served);
    let (secrets, objects): (Vec<Value>, Vec<Value>) =
        there(machine, op, all, &served)?.into_iter().partition(is_secret);
    if objects.is_empty() && secrets.is_empty() && inventory.is_none() {
        return Ok(FoundManifests::Absent { namespace: has_namespace(machine, &op.namespace)? });
    }
    let secrets = (!secrets.is_empty()).then(|| Digest::of(list(&secrets)));
    Ok(FoundManifests::Other { objects, secrets, inventory })
}

/// The Secrets of both versions that exist, in the order in which [`before`] has them.
pub(super) fn secrets(
    machine: &Machine,
    op: &Manifests,
    objects: &[Value],
    inventory: &Inventory,
) -> Result<Vec<Value>, OpError> {
    if !objects.iter().chain(&inventory.objects).any(is_secret) {
        return Ok(Vec::new());
    }
    let served = apis::served(machine)?;
    let mut all = of_both(op, objects, Some(inventory), &served);
    all.retain(is_secret);
    there(machine, op, all, &served)
}

/// Every object of the bundle and of an earlier version, once.
fn of_both(op: &Manifests, objects: &[Value], inventory: Option<&Inventory>, served: &[Api]) -> Vec<Value> {
    let mut all = inventory::of(op, objects, served).objects;
    if let Some(inventory) = inventory {
        let gone = inventory::without(inventory, &all);
        all.extend(gone);
    }
    all
}

/// Those that exist, in the form in which they can be applied.
fn there(machine: &Machine, op: &Manifests, all: Vec<Value>, served: &[Api]) -> Result<Vec<Value>, OpError> {
    let known = all.into_iter().filter(|object| served.iter().any(|api| api.is_of(&Identity::of(object))));
    let mut found = Vec::new();
    for (namespace, objects) in by_namespace(known, &op.namespace) {
        let args = ["get", "--ignore-not-found", "--output=json", "--namespace", &namespace, "--filename", "-"];
        let program = kubectl(args).stdin(list(&objects));
        let printed = printed(&machine.run(&program)?.stdout);
        let printed = printed.map_err(|error| OpError::other(format!("`{program}` did not return JSON: {error}")))?;
        found.extend(printed.into_iter().map(own));
    }
    Ok(found)
}
