//! The registry, and storage.

use super::super::fields::{Variables, carry, env, never, numbers, same};
use super::super::source::Place;
use super::super::yaml::{Map, Yaml};

/// `hosts`: whether hosts have the role registry, on which KubeKey sets one up.
pub(super) fn registry(from: &Place<'_>, hosts: bool) -> Map {
    let mut to = Map::default();
    let private = from.get("privateRegistry").and_then(|at| at.text());
    match from.get("type").map(|at| (at.text(), at)) {
        Some((Some("harbor"), at)) => kind(&mut to, "harbor", &at),
        Some((Some("docker-registry"), at)) => kind(&mut to, "registry", &at),
        Some((_, at)) => at.leave("it is neither harbor nor docker-registry"),
        None => {
            if let Some(at) = from.get("privateRegistry").filter(|_| !hosts) {
                kind(&mut to, "external", &at);
            }
        }
    }
    same(from, &mut to, &[("privateRegistry", "privateRegistry"), ("namespaceOverride", "namespaceOverride")]);
    numbers(from, &mut to, &[("port", "port")]);
    if let Some(at) = from.get("insecureRegistries") {
        let all = at.texts();
        if private.is_some_and(|private| all.contains(&private)) {
            to.set("insecure", true);
            to.came_from("insecure", at.origin());
        }
        if !all.iter().all(|one| Some(*one) == private) {
            at.leave("only the cluster's own registry can be insecure");
        }
    }
    for (name, reason) in [
        ("registryMirrors", "where images are fetched from is a zone's: `kubexm-bundle zone --help` shows the file"),
        ("bridgeIP", "docker's bridge is not changed; see spec.runtime.extraConfig"),
        (
            "namespaceRewrite",
            "one folder for all images is spec.registry.namespaceOverride; others are by upstream host",
        ),
    ] {
        if let Some(at) = from.get(name) {
            at.leave(reason);
        }
    }
    carry(from, "auths", &mut to, "auths", |at| Some(auths(at).into()));
    to
}

fn kind(to: &mut Map, kind: &str, at: &Place<'_>) {
    to.set("type", kind);
    to.came_from("type", at.origin());
}

fn auths(from: &Place<'_>) -> Map {
    let (mut all, mut variables) = (Map::default(), Variables::default());
    for (host, at) in from.fields() {
        all.set(host, auth(host, &at, &mut variables));
        all.came_from(host, at.origin());
    }
    all
}

fn auth(host: &str, from: &Place<'_>, variables: &mut Variables) -> Map {
    let mut auth = Map::default();
    same(from, &mut auth, &[("username", "username")]);
    if let Some(at) = from.get("password") {
        let variable = variables.of("KUBEXM_REGISTRY_PASSWORD", host);
        auth.set("passwordFrom", env(&variable));
        at.leave(format!("no secret is in cluster.yaml: set {variable} where the programs run"));
    }
    for name in ["skipTLSVerify", "plainHTTP"] {
        never(from, &[name], "spec.registry.insecure is this setting for the cluster's own registry");
    }
    if let Some(at) = from.get("certsPath") {
        at.leave("give the CA with spec.registry.caFile");
    }
    auth
}

pub(super) fn storage(from: &Place<'_>) -> Map {
    let mut storage = Map::default();
    if let Some(at) = from.get("openebs") {
        let mut openebs = Map { origin: Some(at.origin()), ..Map::default() };
        same(&at, &mut openebs, &[("basePath", "basePath")]);
        if !openebs.fields.is_empty() {
            at.leave(
                "KubeKey installs it with KubeSphere or --with-local-storage only: remove spec.storage if it was not",
            );
        }
        storage.put("openebs", Yaml::Map(openebs));
    }
    storage
}
