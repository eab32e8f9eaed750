//! Nothing in the cluster uses some images: pods that have not ended, what makes pods, and what helm would apply or run of its releases.
//!
//! Objects of other kinds (custom resources, from which an operator makes pods) are not looked through; their pods are.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kubexm_charts::extract;
use kubexm_plan::ProbeAnswer;
use kubexm_spec::Reference;
use serde_json::Value;

use super::answer::{no, yes};
use crate::{Machine, OpError, installed_releases, kube};

/// What makes pods, which is named where it uses an image, and pods themselves: those of somebody else's kinds, and static ones.
pub(crate) const KINDS: [&str; 8] = [
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "replicasets.apps",
    "replicationcontrollers",
    "jobs.batch",
    "cronjobs.batch",
    "pods",
];
/// How long releases of helm are read, one by one: whoever may make Secrets in a namespace can have any number look like some.
const READING: Duration = Duration::from_secs(300);
/// So many uses are named.
const NAMED: usize = 10;

pub(super) fn look(machine: &Machine, images: &BTreeSet<String>) -> Result<ProbeAnswer, OpError> {
    let mut used_so_far: BTreeMap<String, String> = BTreeMap::new();
    let mut look_at = |objects: &[Value]| {
        for (image, by) in used(objects, images) {
            used_so_far.entry(image).or_insert(by);
        }
    };
    // What one answer may be long is limited, and so is what is kept: one kind and one release at a time.
    for kind in KINDS {
        let mut list = kube::get(machine, ["--all-namespaces", kind])?;
        let found = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let mut objects: Vec<Value> = found.into_iter().filter(may_pull).collect();
        objects.iter_mut().for_each(without_status);
        look_at(&objects);
    }
    let until = Instant::now() + READING;
    for last in installed_releases::every(machine)? {
        if Instant::now() >= until {
            return Err(OpError::other(format!(
                "reading the releases of helm takes more than {} s: the next one is {} in namespace {}; remove Secrets with the label \
                 owner=helm that helm has not made",
                READING.as_secs(),
                last.name,
                last.namespace
            )));
        }
        let Some(revision) = last.revision(machine)? else { continue };
        // A Secret that only looks like a release is somebody else's.
        let Ok(release) = revision.read() else { continue };
        look_at(&release.objects().unwrap_or_default());
        let hooks = release.hooks().unwrap_or_default();
        look_at(&hooks.into_iter().map(|hook| hook.object).collect::<Vec<_>>());
    }
    let used = used_so_far;
    if used.is_empty() {
        return Ok(yes(format!("nothing uses one of the {} images", images.len())));
    }
    let named: Vec<String> = used.iter().take(NAMED).map(|(image, by)| format!("{image} ({by})")).collect();
    let more = match used.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Ok(no(format!("in use: {}{more}", named.join(", "))))
}

/// Those of the images that objects name, each with the first that does. Each object is looked through by itself: names without end in
/// somebody's object hide none of others, and may be any.
fn used(objects: &[Value], images: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut used = BTreeMap::new();
    for object in objects {
        let found = extract::images(std::slice::from_ref(object));
        let all = found.pods.iter().chain(&found.suspects);
        let named = all.filter(|(name, _)| asked_for(name).is_some_and(|asked| images.contains(&asked)));
        let named = named.map(|(name, place)| (name.clone(), place.clone()));
        let any = found.broken.iter().filter(|_| found.is_cut()).take(1);
        for (name, place) in named.chain(any.map(|(name, place)| (name.clone(), place.clone()))) {
            used.entry(name).or_insert(place);
        }
    }
    used
}

/// What a runtime asks a registry for: with a digest, the tag is not asked for.
fn asked_for(name: &str) -> Option<String> {
    let Reference { repository, tag, digest } = Reference::read(name)?;
    Some(match digest {
        Some(digest) => format!("{repository}@{digest}"),
        None => format!("{repository}:{}", tag.as_deref().unwrap_or("latest")),
    })
}

/// Whether pods of it may be started or started again. Of a Deployment's earlier versions only the pods that are left are asked.
fn may_pull(object: &Value) -> bool {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let ended = |kind: &str| {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        conditions.into_iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    match text("/kind") {
        "Pod" => !matches!(text("/status/phase"), "Succeeded" | "Failed"),
        "ReplicaSet" | "ReplicationController" => object.pointer("/metadata/ownerReferences/0").is_none(),
        "Job" => !ended("Complete") && !ended("Failed"),
        _ => true,
    }
}

/// What ran is no reason to pull it again, and annotations repeat what was applied once.
fn without_status(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("annotations");
        metadata.remove("managedFields");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, image: &str) -> Value {
        json!({"kind": "Pod", "metadata": {"name": name, "namespace": "a"}, "spec": {"containers": [{"image": image}]},
               "status": {"phase": "Running"}})
    }

    #[test]
    fn short_names_and_digests_are_compared_as_a_runtime_asks_for_them() {
        let digest = kubexm_spec::Digest::of("x");
        let images = ["docker.io/library/busybox:latest".to_owned(), format!("a.b/c@{digest}")].into();
        let objects = [
            pod("short", "busybox"),
            pod("pinned", &format!("a.b/c:1@{digest}")),
            pod("other", "a.b/c:1"),
            pod("d", "d:1"),
        ];
        let used = used(&objects, &images);
        assert_eq!(used.len(), 2, "{used:?}");
        assert!(used.values().any(|place| place.contains("Pod a/short")), "{used:?}");
        assert!(used.values().any(|place| place.contains("Pod a/pinned")), "{used:?}");
    }

    #[test]
    fn names_without_end_in_one_object_hide_no_use_of_others_and_may_be_any() {
        let words: String = (0..20_000).map(|at| format!("a:{at}.0 ")).collect();
        let many = json!({"kind": "Deployment", "metadata": {"name": "many"}, "spec": {"env": words}});
        let other = json!({"kind": "Deployment", "metadata": {"name": "z"}, "spec": {"env": "x b.c/used:1 y"}});
        let images = ["b.c/used:1".to_owned()].into();
        let used = used(&[many, other], &images);
        assert!(used.contains_key("b.c/used:1") && used.len() == 2, "{used:?}");
        assert!(used.values().any(|place| place.contains("Deployment many")), "{used:?}");
    }

    #[test]
    fn what_has_ended_and_earlier_versions_of_a_deployment_pull_nothing() {
        let phase = |phase: &str| json!({"kind": "Pod", "status": {"phase": phase}});
        assert!(may_pull(&phase("Running")) && may_pull(&phase("Pending")) && may_pull(&phase("Unknown")));
        assert!(!may_pull(&phase("Succeeded")) && !may_pull(&phase("Failed")));
        let owned = json!({"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"kind": "Deployment"}]}});
        assert!(!may_pull(&owned) && may_pull(&json!({"kind": "ReplicaSet", "metadata": {}})));
        let job = |kind: &str| json!({"kind": "Job", "status": {"conditions": [{"type": kind, "status": "True"}]}});
        assert!(!may_pull(&job("Complete")) && !may_pull(&job("Failed")) && may_pull(&job("Suspended")));
        assert!(may_pull(&json!({"kind": "CronJob"})) && may_pull(&json!({"kind": "Deployment"})));
    }
}
