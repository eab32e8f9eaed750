//! `helm`: every chart renders to the same objects, as its values say. `image` makes a Deployment of it, `claim: true` a
//! PersistentVolumeClaim, `hook` a Job that fails if it is `fails`; all values are in a ConfigMap, which the chart changes by itself with
//! `moves: true`. `custom: true` makes an object of a kind that helm does not know, and `sneaks` an image that only an install has;
//! with `sneaks: merged` it has it for helm alone. `test` makes a pod that is a hook of these events.

use kubexm_charts::documents::{self, Room};
use kubexm_charts::stored::{Release, Revision, encode, revisions};
use serde_json::{Map, Value, json};

use super::objects::of_json;
use super::rooted::RootedSystem;
use super::state::State;
use crate::system::Output;

const IN_PROGRESS: &str = "Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress";

/// The release that a command is about.
struct Target<'a> {
    name: &'a str,
    namespace: &'a str,
    args: &'a [&'a str],
}

impl Target<'_> {
    fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.args.iter().zip(self.args.iter().skip(1)).find(|(option, _)| **option == name).map(|(_, value)| *value)
    }
}

pub(super) fn helm(system: &RootedSystem, state: &mut State, args: &[&str], stdin: &[u8]) -> Output {
    if state.cluster.nodes.is_empty() || !state.cluster.has_quorum() {
        return Output::failed(1, "Error: Kubernetes cluster unreachable");
    }
    let [verb, name, ..] = args else { return Output::failed(1, "Error: wrong arguments") };
    let namespace = args.iter().zip(args.iter().skip(1)).find(|(option, _)| **option == "--namespace");
    let target = Target { name, namespace: namespace.map_or("default", |(_, namespace)| namespace), args };
    let values: Map<String, Value> = serde_json::from_slice(stdin).unwrap_or_default();
    match *verb {
        "template" | "upgrade" if !args.get(2).is_some_and(|chart| std::path::Path::new(chart).is_file()) => {
            Output::failed(1, "Error: path to the chart not found")
        }
        "template" => {
            let tests = test(&values).filter(|_| !args.contains(&"--skip-tests"));
            let objects = rendered(&target, &values).into_iter().chain(hook(&target, &values)).chain(tests);
            Output::text(objects.map(|object| format!("---\n{object}\n")).collect::<String>())
        }
        "upgrade" => upgrade(state, &target, &values),
        "rollback" => rollback(state, &target),
        "uninstall" => {
            if let Some(all) = state.cluster.releases.remove(&target.key()) {
                remove(state, last(&all).as_ref());
            }
            Output::text(format!("release {name:?} uninstalled\n"))
        }
        other => Output::failed(1, format!("the fake helm does not know `{other}` ({})", system.at("/").display())),
    }
}

fn rendered(target: &Target<'_>, values: &Map<String, Value>) -> Vec<Value> {
    let metadata = json!({"name": target.name});
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"values": Value::Object(values.clone()).to_string()}}),
    ];
    if let Some(image) = values.get("image") {
        let pod = json!({"spec": {"containers": [{"name": "main", "image": image}]}});
        all.push(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": pod}}),
        );
    }
    if values.get("custom") == Some(&json!(true)) {
        all.push(json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": 1}}));
    }
    if values.get("claim") == Some(&json!(true)) {
        all.push(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}));
    }
    all
}

fn hook(target: &Target<'_>, values: &Map<String, Value>) -> Option<Value> {
    values.get("hook")?;
    Some(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": format!("{}-check", target.name)}}))
}

fn test(values: &Map<String, Value>) -> Option<Value> {
    let events = values.get("test")?.as_str()?;
    let metadata = json!({"name": "try", "annotations": {"helm.sh/hook": events}});
    let containers = json!([{"name": "main", "image": "test.example/x:1"}]);
    Some(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}))
}

fn upgrade(state: &mut State, target: &Target<'_>, values: &Map<String, Value>) -> Output {
    let history = state.cluster.releases.get(&target.key()).cloned().unwrap_or_default();
    if status(&history).is_some_and(|status| status.starts_with("pending")) {
        return Output::failed(1, IN_PROGRESS);
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": target.namespace}});
    let (key, document) = of_json(&namespace);
    state.cluster.objects.entry(key).or_insert(document);
    let fails = values.get("hook") == Some(&json!("fails"));
    let phase = if fails { "Failed" } else { "Succeeded" };
    let mut hooks: Vec<Value> = hook(target, values)
        .into_iter()
        .map(|hook| json!({"manifest": hook.to_string(), "last_run": {"phase": phase}}))
        .collect();
    if let Some(test) = test(values) {
        let events = test["metadata"]["annotations"]["helm.sh/hook"].as_str().unwrap_or_default();
        let events: Vec<&str> = events.split(',').collect();
        hooks.push(json!({"manifest": test.to_string(), "events": events}));
    }
    if let Some(hook) = hook(target, values) {
        state.cluster.objects.extend([of_json(&hook)]);
    }
    let mut objects = rendered(target, values);
    if values.get("sneaks") == Some(&json!(true)) {
        let pod = json!({"spec": {"containers": [{"name": "main", "image": "evil.example/x:1"}]}});
        let metadata = json!({"name": "sneaky"});
        objects.push(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": pod}}),
        );
    }
    let mut manifest: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
    if values.get("sneaks") == Some(&json!("merged")) {
        manifest
            .push_str("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: sneaky}, data: {a: x, <<: {a: y}}}\n");
    }
    let release = json!({
        "name": target.name,
        "chart": {"metadata": {"name": target.name, "version": "1.0.0"}},
        "config": values,
        "manifest": manifest,
        "hooks": hooks,
    });
    let label = target.option("--labels").unwrap_or_default().to_owned();
    add(state, target, &release, if fails { "failed" } else { "deployed" }, &label);
    if fails {
        return Output::failed(1, "Error: UPGRADE FAILED: post-upgrade hooks failed: job failed: BackoffLimitExceeded");
    }
    Output::text(format!("Release {:?} has been upgraded.\n", target.name))
}

fn rollback(state: &mut State, target: &Target<'_>) -> Output {
    let history = state.cluster.releases.get(&target.key()).cloned().unwrap_or_default();
    let to = target.args.get(2).copied().unwrap_or_default();
    let Some(secret) = history.iter().find(|secret| secret["metadata"]["labels"]["version"] == to) else {
        return Output::failed(1, format!("Error: release has no {to} version"));
    };
    let label =
        secret["metadata"]["labels"]["kubexm.io/chart"].as_str().map(|chart| format!("kubexm.io/chart={chart}"));
    let Some(release) = last(std::slice::from_ref(secret)) else { return Output::failed(1, "Error: no release") };
    let release = json!({
        "name": target.name,
        "chart": {"metadata": {"name": target.name, "version": "1.0.0"}},
        "config": release.values(),
        "manifest": release.manifest(),
    });
    add(state, target, &release, "deployed", &label.unwrap_or_default());
    Output::text("Rollback was a success! Happy Helming!\n")
}

/// Adds a revision; its objects take the place of those of the last one.
fn add(state: &mut State, target: &Target<'_>, release: &Value, status: &str, label: &str) {
    let mut history = state.cluster.releases.remove(&target.key()).unwrap_or_default();
    // helm compares an object of a kind that it does not know with its last rendering, and not with the cluster.
    let kept: Vec<(String, String)> = state
        .cluster
        .objects
        .iter()
        .filter(|(key, _)| key.starts_with("Widget/"))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    remove(state, last(&history).as_ref());
    if status == "deployed" {
        let deployed = history.iter_mut().filter(|secret| secret["metadata"]["labels"]["status"] == "deployed");
        deployed.for_each(|secret| secret["metadata"]["labels"]["status"] = "superseded".into());
    }
    let number =
        history.iter().filter_map(|secret| secret["metadata"]["labels"]["version"].as_str()?.parse().ok()).max();
    let number = number.unwrap_or(0) + 1;
    let mut labels = json!({"owner": "helm", "name": target.name, "status": status, "version": number.to_string()});
    if let Some((name, value)) = label.split_once('=') {
        labels[name] = value.into();
    }
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": format!("sh.helm.release.v1.{}.v{number}", target.name), "labels": labels},
        "data": {"release": encode(release).unwrap_or_default()},
    });
    let manifest = release["manifest"].as_str().unwrap_or_default();
    let objects = documents::read_within(manifest, &mut Room::default().as_it_is()).unwrap_or_default();
    state.cluster.objects.extend(objects.iter().map(of_json));
    for (key, document) in kept.into_iter().filter(|_| !history.is_empty()) {
        state.cluster.objects.entry(key).and_modify(|live| *live = document);
    }
    if release["config"]["moves"] == true {
        let changed = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": target.name}, "data": {"own": "changed"}});
        state.cluster.objects.extend([of_json(&changed)]);
    }
    history.push(secret);
    state.cluster.releases.insert(target.key(), history);
}

fn remove(state: &mut State, release: Option<&Release>) {
    for object in release.and_then(|release| release.objects().ok()).unwrap_or_default() {
        state.cluster.objects.remove(&of_json(&object).0);
    }
}

fn all(history: &[Value]) -> Vec<Revision> {
    revisions(json!({"items": history}))
}

fn last(history: &[Value]) -> Option<Release> {
    all(history).last()?.read().ok()
}

fn status(history: &[Value]) -> Option<String> {
    Some(all(history).last()?.status().to_owned())
}
