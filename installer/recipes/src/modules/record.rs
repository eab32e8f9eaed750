//! Records in the cluster what was applied, as the starting point for later upgrades and comparisons.

use std::collections::BTreeSet;

use kubexm_plan::cluster_facts::applied::{self, AppliedCluster, recorded};
use kubexm_plan::op::KubeObject;
use kubexm_plan::{BundleRecord, Op, Plan, Step, StepId, Undo};
use kubexm_spec::cluster::{Cluster, Provisioner, document};
use serde_json::{Map, Value, json};

use crate::context::{PlanContext, PlannedHost};
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;

/// Written into the record.
pub const PROGRAM: &str = concat!("kubexm-install ", env!("CARGO_PKG_VERSION"));

/// Whether cluster.yaml has the settings of etcd that the last successful run has applied. What is not known is not the same.
pub fn has_same_etcd(applied: Option<&AppliedCluster>, cluster: &Cluster) -> bool {
    let etcd = |document: &Value| document.pointer("/spec/etcd").cloned();
    applied
        .and_then(|applied| etcd(&applied.cluster))
        .is_some_and(|had| etcd(&recorded(document(cluster))) == Some(had))
}

/// Adds the last step, after the final check, so that the record describes the cluster as it is and not an attempt.
pub fn finish<'a>(
    draft: &mut Draft<'a>,
    first: &PlannedHost<'a>,
    undo: Undo,
    checked: &[StepId],
) -> Result<(), RecipeError> {
    let text = object(&of_cluster(draft.cx, first)?)?;
    let text = draft.text(text);
    let step = Step::on(first.name(), "record.applied", "Record in the cluster what was applied")
        .ensure(KubeObject::new(applied::CONFIG_MAP, text))
        .retries(3)
        .undo(undo)
        .build();
    let mut chain = Chain::after(checked.iter().cloned());
    chain.then([draft.depends_on_all(step)]);
    draft.add(chain);
    Ok(())
}

/// Adds the step that says in the cluster that a run has upgraded nodes, before its add-ons and after the steps of the chain. It has no way
/// back, so that an add-on that fails takes no node back. A rollback ends only at a step that has changed something, so what it writes has
/// the time of the run; and it is an object of its own, since no later step of the run may undo it.
pub(crate) fn upgraded<'a>(
    draft: &mut Draft<'a>,
    first: &PlannedHost<'a>,
    run: i64,
    (done, settled): (Chain, &[StepId]),
) -> Result<Vec<StepId>, RecipeError> {
    let version = draft.cx.kubernetes_version(first.platform)?;
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": applied::UPGRADED,
            "namespace": applied::NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "kubexm"},
        },
        "data": {"kubernetes": version, "bundle": draft.cx.manifest_digest.to_string(), "at": run.to_string()},
    });
    let bug = |error: serde_json::Error| RecipeError::Document { name: applied::UPGRADED, reason: error.to_string() };
    let object =
        KubeObject::new(applied::UPGRADED, draft.text(serde_json::to_string_pretty(&object).map_err(bug)? + "\n"));
    let undo = Undo::Irreversible { why: UPGRADED.to_owned() };
    let mut step = Step::on(first.name(), "record.upgraded", "Say in the cluster that its nodes were upgraded")
        .ensure(object)
        .retries(3)
        .undo(undo)
        .build();
    step.after_end = settled.to_vec();
    let mut chain = done;
    chain.then([draft.depends_on_all(step)]);
    Ok(draft.add(chain))
}

/// What a rollback says that stops there.
const UPGRADED: &str = "every node has the new version, and an add-on that fails takes none back; mend the add-on, and run the same command again";

fn of_cluster(cx: &PlanContext<'_>, first: &PlannedHost<'_>) -> Result<AppliedCluster, RecipeError> {
    let unsigned =
        || BundleRecord { manifest: cx.manifest_digest, signers: Default::default(), date: None, sequence: None };
    Ok(AppliedCluster {
        schema: applied::SCHEMA.to_owned(),
        name: cx.cluster.name.clone(),
        id: cx.cluster_id,
        kubernetes: cx.kubernetes_version(first.platform)?,
        cluster_sha256: cx.cluster_digest,
        cluster: recorded(document(cx.cluster)),
        bundle: cx.bundle_record.cloned().unwrap_or_else(unsigned),
        program: PROGRAM.to_owned(),
    })
}

/// Whether it is the step that writes the record.
pub(crate) fn is_of(step: &Step) -> bool {
    let is_record = |op: &Op| matches!(op, Op::KubeObject(object) if object.name == applied::CONFIG_MAP);
    !step.ops.is_empty() && step.ops.iter().all(is_record)
}

/// The record of a cluster of which only add-ons are applied: all else is what it was. If some are named, only these are.
pub(crate) fn of_addons(cx: &PlanContext<'_>, last: &AppliedCluster, named: &[String]) -> Result<String, RecipeError> {
    let list = |document: &Value| -> Vec<Value> {
        document.pointer("/spec/addons").and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let now = recorded(document(cx.cluster));
    let (old, new) = (list(&last.cluster), list(&now));
    let applies = |addon: &Value| named.is_empty() || named.iter().any(|name| addon["name"] == name.as_str());
    let is = |one: &Value, other: &Value| one["name"] == other["name"];
    // In the order of cluster.yaml; others keep what was applied.
    let mut all: Vec<Value> = new
        .iter()
        .filter_map(|addon| if applies(addon) { Some(addon) } else { old.iter().find(|last| is(last, addon)) })
        .cloned()
        .collect();
    let left = old.iter().filter(|last| !applies(last) && !new.iter().any(|addon| is(addon, last)));
    all.extend(left.cloned());
    let mut record = AppliedCluster { program: PROGRAM.to_owned(), ..last.clone() };
    put(&mut record, "addons", (!all.is_empty()).then(|| all.into()));
    put(&mut record, "storage", storage_of(&last.cluster, &now, named));
    object(&record)
}

/// What makes volumes: where it is applied what cluster.yaml has, and otherwise what was applied last.
fn storage_of(last: &Value, now: &Value, named: &[String]) -> Option<Value> {
    let applies =
        |provisioner: &Provisioner| named.is_empty() || named.iter().any(|name| name == provisioner.release());
    let of = |provisioner: Provisioner| {
        let from = if applies(&provisioner) { now } else { last };
        let value = from.pointer(&format!("/spec/storage/{}", provisioner.key()))?;
        Some((provisioner.key().to_owned(), value.clone()))
    };
    let all: Map<String, Value> = Provisioner::ALL.into_iter().filter_map(of).collect();
    (!all.is_empty()).then(|| all.into())
}

/// Sets a part of what a record says was applied, or removes it.
fn put(record: &mut AppliedCluster, part: &str, value: Option<Value>) {
    if let Some(spec) = record.cluster.pointer_mut("/spec").and_then(Value::as_object_mut) {
        match value {
            None => drop(spec.remove(part)),
            Some(value) => drop(spec.insert(part.to_owned(), value)),
        }
    }
}

/// Lets the record of a plan have the add-ons and the storage of the last one: the plan installs and removes none.
pub(crate) fn keep_addons(plan: &mut Plan, last: Option<&AppliedCluster>) -> Result<(), RecipeError> {
    if last.is_none() {
        return Ok(());
    }
    edit(plan, |record| take_addons(record, last))
}

/// The same, where nothing says what was applied last: the record has none.
pub(crate) fn keep_or_drop_addons(plan: &mut Plan, last: Option<&AppliedCluster>) -> Result<(), RecipeError> {
    edit(plan, |record| take_addons(record, last))
}

/// Leaves hosts out of the record of a plan: they are in cluster.yaml, and have not joined yet.
pub(crate) fn leave_out(plan: &mut Plan, hosts: &BTreeSet<&str>) -> Result<(), RecipeError> {
    if hosts.is_empty() {
        return Ok(());
    }
    edit(plan, |record| remove_hosts(&mut record.cluster, hosts))
}

fn edit(plan: &mut Plan, change: impl FnOnce(&mut AppliedCluster)) -> Result<(), RecipeError> {
    let mut ops = plan.steps.iter().filter(|step| is_of(step)).flat_map(|step| &step.ops);
    let Some(text) = ops.find_map(Op::text) else { return Ok(()) };
    let bug = |reason: String| RecipeError::Document { name: applied::CONFIG_MAP, reason };
    let written = plan.texts.remove(&text).unwrap_or_default();
    let written: Value = serde_json::from_str(&written).map_err(|error| bug(error.to_string()))?;
    let mut record = AppliedCluster::of_config_map(&written).map_err(bug)?;
    change(&mut record);
    let record = object(&record)?;
    replace(plan, record);
    Ok(())
}

/// Removes hosts from `spec.hosts` and from every role group but that of the registry.
pub fn remove_hosts(cluster: &mut Value, gone: &BTreeSet<&str>) {
    let is_gone = |name: &Value| name.as_str().is_some_and(|name| gone.contains(name));
    if let Some(hosts) = cluster.pointer_mut("/spec/hosts").and_then(Value::as_array_mut) {
        hosts.retain(|host| !is_gone(&host["name"]));
    }
    let groups = cluster.pointer_mut("/spec/roleGroups").and_then(Value::as_object_mut);
    let groups = groups.into_iter().flatten();
    // A registry host is deleted only where it was lost: nodes pull from it still, and the same host is to come back.
    for group in groups.filter(|(role, _)| *role != "registry").filter_map(|(_, group)| group.as_array_mut()) {
        group.retain(|name| !is_gone(name));
    }
}

/// Lets a record have the add-ons and the storage of another, or none.
fn take_addons(record: &mut AppliedCluster, last: Option<&AppliedCluster>) {
    for part in ["addons", "storage"] {
        put(record, part, last.and_then(|last| last.cluster.pointer(&format!("/spec/{part}")).cloned()));
    }
}

/// Gives the step of the record another one.
pub(crate) fn replace(plan: &mut Plan, record: String) {
    let text = plan.text(record);
    for step in plan.steps.iter_mut().filter(|step| is_of(step)) {
        step.ops = vec![KubeObject::new(applied::CONFIG_MAP, text).into()];
    }
}

/// The ConfigMap with a record: JSON, which is YAML.
pub(crate) fn object(record: &AppliedCluster) -> Result<String, RecipeError> {
    let bug = |error: serde_json::Error| RecipeError::Document { name: applied::CONFIG_MAP, reason: error.to_string() };
    let record = serde_json::to_string(record).map_err(bug)?;
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": applied::CONFIG_MAP,
            "namespace": applied::NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "kubexm"},
        },
        "data": {applied::KEY: record},
    });
    Ok(serde_json::to_string_pretty(&object).map_err(bug)? + "\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deleted_host_is_in_no_list_of_the_record() {
        let mut cluster = json!({"spec": {
            "hosts": [{"name": "node1"}, {"name": "node2"}],
            "roleGroups": {"master": ["node1"], "worker": ["node1", "node2"], "registry": ["node2"]},
        }});
        remove_hosts(&mut cluster, &BTreeSet::from(["node2"]));
        let wanted = json!({"spec": {
            "hosts": [{"name": "node1"}],
            "roleGroups": {"master": ["node1"], "worker": ["node1"], "registry": ["node2"]},
        }});
        assert_eq!(cluster, wanted);
    }
}
