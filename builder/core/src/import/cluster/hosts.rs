//! Hosts, their roles, and how they are prepared.

use super::super::defaults::{Assumed, COMMENT};
use super::super::fields::{Variables, carry, env, lists, numbers, one_or_more, same};
use super::super::script;
use super::super::source::Place;
use super::super::yaml::{Map, Yaml};

/// `SetDefaultHostsCfg` of KubeKey.
const KEY: &str = "~/.ssh/id_rsa";

pub(super) fn hosts(from: &Place<'_>) -> Vec<Map> {
    let mut variables = Variables::default();
    from.items().iter().map(|at| host(at, &mut variables)).collect()
}

/// The key that KubeKey logs in with to hosts that give neither key nor password; with `write` they get it.
pub(super) fn default_keys(from: &Place<'_>, spec: &mut Map, write: bool) -> Vec<Assumed> {
    let Some(Yaml::List(hosts)) = spec.get_mut("hosts") else { return Vec::new() };
    let silent =
        |from: &Place<'_>| ["password", "privateKey", "privateKeyPath"].iter().all(|name| from.get(name).is_none());
    let mut assumed = Vec::new();
    for (index, (from, host)) in from.items().iter().zip(hosts).enumerate() {
        let Yaml::Map(host) = host else { continue };
        if !silent(from) {
            continue;
        }
        if write {
            host.add(&["privateKeyPath"], KEY.into(), COMMENT);
        }
        let ours = format!("spec.hosts[{index}].privateKeyPath");
        let written_as = write.then(|| ours.clone());
        assumed.push(Assumed { field: "spec.hosts[].privateKeyPath", value: KEY, ours: Some(ours), written_as });
    }
    assumed
}

fn host(from: &Place<'_>, variables: &mut Variables) -> Map {
    let mut host = Map { origin: Some(from.origin()), ..Map::default() };
    same(from, &mut host, &[("name", "name")]);
    // Several addresses stand in one text, IPv4 first. One of the two does for both.
    let address = if from.get("address").is_some() { "address" } else { "internalAddress" };
    carry(from, address, &mut host, "address", |at| at.text().map(one_or_more));
    if address == "address" {
        carry(from, "internalAddress", &mut host, "internalAddress", |at| at.text().map(one_or_more));
    }
    numbers(from, &mut host, &[("port", "port")]);
    same(from, &mut host, &[("user", "user"), ("privateKeyPath", "privateKeyPath"), ("arch", "arch")]);
    if let Some(at) = from.get("password") {
        let name = from.get("name").and_then(|at| at.text()).unwrap_or("host").to_owned();
        let variable = variables.of("KUBEXM_PASSWORD", &name);
        host.set("passwordFrom", env(&variable));
        // KubeKey answers sudo with it, too.
        if from.get("user").and_then(|at| at.text()).is_some_and(|user| user != "root") {
            host.set("sudoPasswordFrom", env(&variable));
        }
        at.leave(format!(
            "no secret is in cluster.yaml, which travels in the bundle: set {variable} where kubexm-install runs"
        ));
    }
    if let Some(at) = from.get("privateKey") {
        at.leave("no secret is in cluster.yaml: put the key into a file and give privateKeyPath");
    }
    if let Some(at) = from.get("timeout") {
        at.leave("there is no timeout field for a host; an SSH connection has 30 seconds");
    }
    carry(from, "labels", &mut host, "labels", |at| Some(labels(at).into()));
    host
}

fn labels(from: &Place<'_>) -> Map {
    let mut labels = Map::default();
    for (name, at) in from.fields() {
        if let Some(text) = at.text() {
            labels.set(name, text);
            labels.came_from(name, at.origin());
        }
    }
    labels
}

pub(super) fn roles(from: &Place<'_>, etcd: Option<&str>) -> Map {
    let mut roles = Map::default();
    for (name, at) in from.fields() {
        match name {
            "etcd" if etcd == Some("external") => at.leave("an etcd of your own has hosts of its own"),
            "etcd" if etcd == Some("kubeadm") => at.leave("with an etcd of kubeadm its members are the control planes"),
            "etcd" | "master" | "control-plane" | "worker" | "registry" | "loadbalancer" => {
                roles.set(name, at.texts());
                roles.came_from(name, at.origin());
            }
            // An older name of both.
            "k8s" => at.leave("KubeKey's own fields name the roles master and worker; write them there"),
            _ => at.leave("there is no such role"),
        }
    }
    roles
}

pub(super) fn system(from: &Place<'_>) -> Map {
    let mut system = Map::default();
    lists(from, &mut system, &[("ntpServers", "ntpServers"), ("rpms", "rpms"), ("debs", "debs")]);
    same(from, &mut system, &[("timezone", "timezone")]);
    for name in ["preInstall", "postInstall"] {
        carry(from, name, &mut system, name, |at| {
            Some(at.items().iter().filter_map(script).collect::<Vec<_>>().into())
        });
    }
    if let Some(at) = from.get("postClusterInstall") {
        at.leave("nothing runs between the cluster and its add-ons here: postInstall runs after everything");
    }
    carry(from, "skipConfigureOS", &mut system, "skipConfigureOS", |at| at.is_true().then_some(Yaml::Bool(true)));
    system
}

/// How many lines of a script are reported.
const LINES: usize = 5;

/// A script unchanged, or not at all: without the line that has the secret it would be another one.
fn script(from: &Place<'_>) -> Option<Map> {
    let bash = from.get("bash");
    let secrets = bash.as_ref().and_then(Place::text).map(script::secrets_of).unwrap_or_default();
    if let (Some(at), false) = (bash, secrets.is_empty()) {
        let mut reported: Vec<String> =
            secrets.iter().take(LINES).map(|(line, what)| format!("line {line} of it {what}")).collect();
        if secrets.len() > LINES {
            reported.push(format!("and so do {} more", secrets.len() - LINES));
        }
        at.leave(format!(
            "{}: no secret is in cluster.yaml, which travels in the bundle, and the script is left out; let it read the \
             secret from a file of the node, and write it there yourself",
            reported.join(", ")
        ));
        from.taken();
        return None;
    }
    let mut script = Map { origin: Some(from.origin()), ..Map::default() };
    same(from, &mut script, &[("name", "name"), ("bash", "bash")]);
    lists(from, &mut script, &[("materials", "materials")]);
    carry(from, "role", &mut script, "roles", |at| match at.text()? {
        // Control planes and workers.
        "k8s" => Some(["master", "worker"].map(Yaml::from).to_vec().into()),
        role @ ("etcd" | "master" | "control-plane" | "worker" | "registry" | "loadbalancer") => {
            Some(vec![Yaml::from(role)].into())
        }
        _ => {
            at.leave("there is no such role: here the script runs on every node");
            None
        }
    });
    Some(script)
}
