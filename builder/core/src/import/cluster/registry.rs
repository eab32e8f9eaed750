//! The registry, add-ons and storage.

use super::super::source::Place;
use super::super::yaml::Map;
use super::{env, same, variable};

pub(super) fn registry(spec: &Place<'_>) -> Map {
    let mut to = Map::default();
    let Some(from) = spec.get("registry") else { return to };
    let private = from.get("privateRegistry").and_then(|at| at.text());
    match from.get("type").map(|at| (at.text(), at)) {
        Some((Some("harbor"), _)) => to.set("type", "harbor"),
        Some((Some("docker-registry"), _)) => to.set("type", "registry"),
        Some((_, at)) => at.leave("it is neither harbor nor docker-registry"),
        None if private.is_some() => to.set("type", "external"),
        None => {}
    }
    to.maybe("privateRegistry", private);
    same(&from, &mut to, &[("namespaceOverride", "namespaceOverride")]);
    if let Some(at) = from.get("insecureRegistries") {
        let all = at.texts();
        if private.is_some_and(|private| all.contains(&private)) {
            to.set("insecure", true);
        }
        if !all.iter().all(|one| Some(*one) == private) {
            at.leave("only the cluster's own registry can be insecure");
        }
    }
    if let Some(at) = from.get("registryMirrors") {
        at.leave("where images are fetched from is a zone's: `kubexm-bundle zone --help` shows the file");
    }
    if let Some(at) = from.get("bridgeIP") {
        at.leave("docker's bridge is left as docker makes it; see spec.runtime.extraConfig");
    }
    if let Some(auths) = from.get("auths") {
        let mut all = Map::default();
        for (host, at) in auths.fields() {
            all.set(host, auth(host, &at));
        }
        to.set("auths", all);
    }
    to
}

fn auth(host: &str, from: &Place<'_>) -> Map {
    let mut auth = Map::default();
    same(from, &mut auth, &[("username", "username")]);
    if let Some(at) = from.get("password") {
        let variable = variable("KUBEXM_REGISTRY_PASSWORD", host);
        auth.set("passwordFrom", env(&variable));
        at.leave(format!("no secret stands in cluster.yaml: set {variable} where the programs run"));
    }
    for name in ["skipTLSVerify", "plainHTTP"] {
        if let Some(at) = from.get(name) {
            match at.is_true() {
                true => at.leave("spec.registry.insecure says it for the cluster's own registry"),
                false => at.taken(),
            }
        }
    }
    if let Some(at) = from.get("certsPath") {
        at.leave("give the CA with spec.registry.caFile");
    }
    auth
}

pub(super) fn addon(from: &Place<'_>) -> Option<Map> {
    let mut addon = Map::default();
    same(from, &mut addon, &[("name", "name")]);
    let mut source = Map::default();
    if let Some(chart) = from.at(&["sources", "chart"]) {
        addon.set("type", "helm");
        match (chart.get("path"), chart.get("repo")) {
            (Some(path), _) => source.maybe("path", path.text()),
            (None, Some(repo)) => {
                let address = repo.text().unwrap_or_default();
                let oci = address.starts_with("oci://");
                let name = chart.get("name").and_then(|at| at.text()).unwrap_or_default();
                match oci {
                    true => source.set("oci", format!("{}/{name}", address.trim_end_matches('/'))),
                    false => {
                        source.set("repo", address);
                        source.set("chart", name);
                    }
                }
                source.maybe("version", chart.get("version").and_then(|at| at.text()));
                if chart.get("version").is_none() {
                    chart.leave("a chart is carried by its exact version: give source.version");
                }
            }
            (None, None) => chart.leave("it says neither a repo nor a path"),
        }
        if let Some(at) = chart.get("values") {
            at.leave("values are written as YAML here (values:), not as --set does");
        }
        addon.set("source", source);
        same(from, &mut addon, &[("namespace", "namespace")]);
        same(&chart, &mut addon, &[("valuesFile", "valuesFile")]);
    } else if let Some(paths) = from.at(&["sources", "yaml", "path"]) {
        addon.set("type", "yaml");
        let items = paths.items();
        let (first, more) = items.split_first()?;
        source.maybe("path", first.text());
        more.iter().for_each(|at| at.leave("an add-on is of one file or folder: make another one of it"));
        addon.set("source", source);
        same(from, &mut addon, &[("namespace", "namespace")]);
    } else {
        from.leave("it has no source");
        return None;
    }
    for name in ["retries", "delay"] {
        if let Some(at) = from.get(name) {
            at.leave("add-ons are waited for, and not tried again by number");
        }
    }
    Some(addon)
}

pub(super) fn storage(from: &Place<'_>) -> Map {
    let mut storage = Map::default();
    if let Some(openebs) = from.get("openebs") {
        let mut to = Map::default();
        same(&openebs, &mut to, &[("basePath", "basePath")]);
        storage.put("openebs", to);
    }
    storage
}
