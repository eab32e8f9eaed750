//! The map from upstream's names to those in the registry: as a document of our own, and in the forms that clusters read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::naming::Naming;
use crate::report::{Mapped, SeedReport};

/// A form of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapForm {
    /// Our own document, in YAML: every name, old and new.
    Map,
    /// OpenShift's ImageDigestMirrorSet and ImageTagMirrorSet.
    MirrorSet,
    /// registries.conf of CRI-O, podman and skopeo.
    RegistriesConf,
    /// hosts.toml of containerd, one for each upstream host.
    HostsToml,
}

impl FromStr for MapForm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "map" => Ok(Self::Map),
            "mirror-set" => Ok(Self::MirrorSet),
            "registries.conf" => Ok(Self::RegistriesConf),
            "hosts.toml" => Ok(Self::HostsToml),
            _ => Err(format!("{text:?} is not a form: known are map, mirror-set, registries.conf and hosts.toml")),
        }
    }
}

/// The map in a form.
pub fn map_text(form: MapForm, naming: &Naming, report: &SeedReport, insecure: bool) -> String {
    match form {
        MapForm::Map => map(report),
        MapForm::MirrorSet => mirror_set(naming, report),
        MapForm::RegistriesConf => registries_conf(naming, report, insecure),
        MapForm::HostsToml => hosts_toml(naming, report, insecure),
    }
}

fn images(report: &SeedReport) -> impl Iterator<Item = &Mapped> {
    report.entries.iter().filter(|entry| entry.kind == "image")
}

/// Upstream repositories, and what each is called here: `quay.io/calico/node` → `registry.corp/quay.io/calico/node`.
fn repositories<'a>(naming: &Naming, report: &'a SeedReport) -> BTreeMap<&'a str, String> {
    let upstream = |entry: &'a Mapped| kubexm_spec::depot::split_reference(&entry.from).0;
    images(report).map(|entry| (upstream(entry), naming.whole(&entry.repository))).collect()
}

/// The same by upstream host where each host is a folder; by repository where all share one.
fn mirrors(naming: &Naming, report: &SeedReport) -> BTreeMap<String, String> {
    let all = repositories(naming, report);
    if naming.namespace_override.is_some() {
        return all.into_iter().map(|(from, to)| (from.to_owned(), to)).collect();
    }
    let mut hosts = BTreeMap::new();
    for (from, to) in all {
        let Some((host, path)) = from.split_once('/') else { continue };
        if let Some(folder) = to.strip_suffix(&format!("/{path}")) {
            hosts.insert(host.to_owned(), folder.to_owned());
        }
    }
    hosts
}

fn map(report: &SeedReport) -> String {
    let entries: Vec<Value> = report
        .entries
        .iter()
        .map(|entry| {
            let mut line = json!({ "kind": entry.kind, "from": entry.from, "to": entry.to, "digest": entry.digest });
            if let Some(upstream) = entry.upstream_digest {
                line["upstreamDigest"] = json!(upstream);
            }
            line
        })
        .collect();
    let document = json!({
        "schema": "kubexm.io/seed-map/v1", "target": report.target, "bundle": report.bundle, "entries": entries,
    });
    yaml(&document)
}

fn mirror_set(naming: &Naming, report: &SeedReport) -> String {
    let mirrors: Vec<Value> =
        mirrors(naming, report).into_iter().map(|(from, to)| json!({ "source": from, "mirrors": [to] })).collect();
    let set = |kind: &str, field: &str| {
        json!({
            "apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": { "name": "kubexm-seed" },
            "spec": { field: mirrors },
        })
    };
    let digests = yaml(&set("ImageDigestMirrorSet", "imageDigestMirrors"));
    let tags = yaml(&set("ImageTagMirrorSet", "imageTagMirrors"));
    format!("{digests}---\n{tags}")
}

fn registries_conf(naming: &Naming, report: &SeedReport, insecure: bool) -> String {
    let mut text = String::from(
        "# Written by kubexm-install seed, for /etc/containers/registries.conf.d (containers-registries.conf(5)).\n",
    );
    for (from, to) in mirrors(naming, report) {
        let _ = write!(
            text,
            "\n[[registry]]\nprefix = \"{from}\"\nlocation = \"{from}\"\n\n[[registry.mirror]]\nlocation = \"{to}\"\n"
        );
        if insecure {
            text.push_str("insecure = true\n");
        }
    }
    text
}

fn hosts_toml(naming: &Naming, report: &SeedReport, insecure: bool) -> String {
    if naming.namespace_override.is_some() {
        return "# Written by kubexm-install seed. containerd's hosts.toml maps hosts, not repositories: with --namespace-override name the images as the map has \
                them.\n"
            .to_owned();
    }
    let scheme = if insecure { "http" } else { "https" };
    let mut text = String::from("# Written by kubexm-install seed: one hosts.toml for each upstream host.\n\n");
    for (host, folder) in mirrors(naming, report) {
        let (registry, path) = folder.split_once('/').unwrap_or((&folder, ""));
        let server = format!("{scheme}://{registry}/v2/{path}");
        let _ = write!(
            text,
            "# /etc/containerd/certs.d/{host}/hosts.toml\nserver = \"{server}\"\n\n[host.\"{server}\"]\n  capabilities = [\"pull\", \
             \"resolve\"]\n  override_path = true\n\n"
        );
    }
    text
}

fn yaml(value: &Value) -> String {
    // Maps with text keys can always be written.
    serde_saphyr::to_string(value).unwrap_or_default()
}
