//! Hosts, their roles, and how they are prepared.

use super::super::source::Place;
use super::super::yaml::Map;
use super::{env, number, one_or_more, same, texts, variable};

/// What KubeKey adds to names of its own that nothing of ours reads.
const HOST_FIELDS: [&str; 2] = ["address", "internalAddress"];

pub(super) fn host(from: &Place<'_>) -> Map {
    let mut host = Map::default();
    same(from, &mut host, &[("name", "name")]);
    for field in HOST_FIELDS {
        // Several addresses stand in one text, IPv4 first.
        let addresses = from.get(field).and_then(|at| at.text());
        host.maybe(field, addresses.map(one_or_more));
    }
    host.maybe("port", from.get("port").and_then(|at| number(&at)));
    same(from, &mut host, &[("user", "user"), ("privateKeyPath", "privateKeyPath"), ("arch", "arch")]);
    let name = from.get("name").and_then(|at| at.text()).unwrap_or("host").to_owned();
    if let Some(at) = from.get("password") {
        let variable = variable("KUBEXM_PASSWORD", &name);
        host.set("passwordFrom", env(&variable));
        at.leave(format!(
            "no secret stands in cluster.yaml, which travels in the bundle: set {variable} where kubexm-install runs"
        ));
    }
    if let Some(at) = from.get("privateKey") {
        at.leave("no secret stands in cluster.yaml: put the key into a file and give privateKeyPath");
    }
    if let Some(at) = from.get("timeout") {
        at.leave("how long is waited for a host is no field here; an SSH connection is given 30 seconds");
    }
    host.maybe("labels", from.get("labels").map(|at| texts(&at)));
    host
}

pub(super) fn roles(from: &Place<'_>) -> Map {
    let mut roles = Map::default();
    for (name, at) in from.fields() {
        match name {
            "etcd" | "master" | "control-plane" | "worker" | "registry" => roles.set(name, at.texts()),
            // An older name of both.
            "k8s" => at.leave("KubeKey's own fields name the roles master and worker; write them there"),
            "loadbalancer" => roles.set(name, at.texts()),
            _ => at.leave("there is no such role"),
        }
    }
    roles
}

pub(super) fn system(from: &Place<'_>) -> Map {
    let mut system = Map::default();
    for name in ["ntpServers", "rpms", "debs"] {
        system.maybe(name, from.get(name).map(|at| at.texts()));
    }
    same(from, &mut system, &[("timezone", "timezone")]);
    for name in ["preInstall", "postInstall"] {
        let scripts = from.get(name).map(|at| at.items().iter().map(script).collect::<Vec<_>>());
        system.maybe(name, scripts);
    }
    system.maybe("skipConfigureOS", from.get("skipConfigureOS").map(|at| at.is_true()).filter(|yes| *yes));
    system
}

fn script(from: &Place<'_>) -> Map {
    let mut script = Map::default();
    same(from, &mut script, &[("name", "name"), ("bash", "bash")]);
    script.maybe("materials", from.get("materials").map(|at| at.texts()));
    script
}
