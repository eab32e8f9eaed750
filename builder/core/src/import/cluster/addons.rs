//! Add-ons. One of KubeKey's may have a chart and any number of YAML files; one of cluster.yaml has one source.

use super::super::fields::{carry, same};
use super::super::secrets;
use super::super::source::Place;
use super::super::yaml::{Map, Origin};

pub(super) fn addons(from: &Place<'_>) -> Vec<Map> {
    from.items().iter().flat_map(addon).collect()
}

/// The add-ons that one becomes: the first has its name, the others `name-2` and so on.
fn addon(from: &Place<'_>) -> Vec<Map> {
    let mut sources: Vec<(Origin, &str, Map)> = Vec::new();
    let chart = from.at(&["sources", "chart"]);
    sources.extend(chart.as_ref().and_then(|at| Some((at.origin(), "helm", source(at)?))));
    let yaml = from.at(&["sources", "yaml", "path"]);
    sources.extend(yaml.iter().flat_map(Place::items).filter_map(|at| Some((at.origin(), "yaml", file(&at)?))));
    for name in ["retries", "delay"] {
        if let Some(at) = from.get(name)
            && at.number().is_some()
        {
            at.leave("the installer waits for add-ons: there is no number of retries");
        }
    }
    for name in ["preInstall", "postInstall"] {
        if let Some(at) = from.get(name) {
            at.leave("nothing runs before or after an add-on; spec.system.postInstall runs after all of them");
        }
    }
    if sources.is_empty() {
        from.leave(match (chart, yaml) {
            (None, None) => "it has no source",
            _ => "none of its sources can be carried over, so it is left out",
        });
        return Vec::new();
    }
    let name = from.get("name").and_then(|at| at.text()).unwrap_or_default();
    let mut all = Vec::new();
    for (number, (origin, kind, source)) in (1..).zip(sources) {
        let mut addon = Map { origin: Some(origin.clone()), ..Map::default() };
        match number {
            1 => same(from, &mut addon, &[("name", "name")]),
            _ => addon.set("name", format!("{name}-{number}")),
        }
        addon.set("type", kind);
        addon.set("source", source);
        addon.came_from("source", origin);
        same(from, &mut addon, &[("namespace", "namespace")]);
        if let Some(chart) = chart.as_ref().filter(|_| kind == "helm") {
            values(chart, &mut addon);
        }
        all.push(addon);
    }
    all
}

fn values(chart: &Place<'_>, addon: &mut Map) {
    carry(chart, "valuesFile", addon, "valuesFile", |at| {
        let text = at.text()?;
        if text.contains("://") {
            at.leave("values travel as a file: fetch it, and give its path as valuesFile");
            return None;
        }
        Some(text.into())
    });
}

/// Source of a chart; none where cluster.yaml cannot express it, which is reported with its dependent fields.
fn source(chart: &Place<'_>) -> Option<Map> {
    if let Some(at) = chart.get("values") {
        at.leave("values are written as YAML here (values:), not as --set does");
    }
    // A chart is waited for in any case.
    chart.get("wait").inspect(Place::taken);
    let source = address(chart);
    if source.is_none()
        && let Some(at) = chart.get("valuesFile")
    {
        at.leave("it goes with the chart, which is left out");
    }
    source
}

fn address(chart: &Place<'_>) -> Option<Map> {
    let mut source = Map { origin: Some(chart.origin()), ..Map::default() };
    let Some(name) = chart.get("name").and_then(|at| at.text()) else {
        chart.leave("it has no name, and KubeKey installs no chart without one");
        return None;
    };
    let version = chart.get("version");
    let Some(repo) = chart.get("repo") else {
        if let Some(at) = chart.get("path") {
            // The chart's folder or archive is below the path.
            source.set("path", format!("{}/{name}", at.text()?.trim_end_matches('/')));
            if let Some(at) = version {
                at.leave("the version of a chart at a path is the one in its Chart.yaml");
            }
            return Some(source);
        }
        if !name.starts_with("oci://") {
            chart.leave("it has neither a repo nor a path");
            return None;
        }
        source.set("oci", plain(&chart.get("name")?, name));
        return exact(chart, source);
    };
    if let Some(at) = chart.get("path") {
        at.leave("KubeKey takes the chart from its repo");
    }
    let address = plain(&repo, repo.text()?);
    match address.starts_with("oci://") {
        true => source.set("oci", format!("{}/{name}", address.trim_end_matches('/'))),
        false => {
            source.set("repo", address);
            source.set("chart", name);
        }
    }
    exact(chart, source)
}

/// With the version, without which nothing could be locked.
fn exact(chart: &Place<'_>, mut source: Map) -> Option<Map> {
    same(chart, &mut source, &[("version", "version")]);
    if source.get("version").is_none() {
        chart.leave(
            "it is left out: a chart is carried by its exact version, and KubeKey took the newest; give version",
        );
        return None;
    }
    Some(source)
}

/// An address; a login in it is reported and left out.
fn plain(at: &Place<'_>, address: &str) -> String {
    let Some(bare) = secrets::without_login(address) else { return address.to_owned() };
    at.leave(
        "a login is in the address, and no secret is in cluster.yaml: it is written without the login; use an origin without login, or give the path of a copy",
    );
    bare
}

/// One of `sources.yaml.path`.
fn file(at: &Place<'_>) -> Option<Map> {
    let text = at.text()?;
    if text.contains("://") {
        at.leave(
            "it is left out: a file of a web server is carried by its digest (source: {url, sha256}); or fetch it and give its path",
        );
        return None;
    }
    let mut source = Map { origin: Some(at.origin()), ..Map::default() };
    source.set("path", text);
    Some(source)
}
