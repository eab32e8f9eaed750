//! KubeKey's `Manifest`: what an artifact of it holds, as `spec.bundle` and the versions beside it.

use kubexm_spec::cluster::full_reference;

use super::fields::{known, name};
use super::source::Place;
use super::yaml::{Map, Yaml, cluster as named};

/// Versions that the catalogue chooses.
const CHOSEN: &str =
    "its version is the catalogue's choice; another one is pinned in a catalogue overlay (--catalogue)";

/// Stands behind the plugin that is written.
const NO_PLUGIN: &str = "the Manifest names none";

/// The whole file.
pub fn manifest(root: &Place<'_>) -> Map {
    known(root);
    let name = name(root, "bundle");
    let mut spec = Map::default();
    let Some(from) = root.get("spec").filter(Place::is_block) else { return named(&name, spec) };
    if let Some(at) = from.get("kubernetesDistributions") {
        spec.set("kubernetes", kubernetes(&at));
        spec.came_from("kubernetes", at.origin());
        // An artifact of KubeKey has the images of its list; a bundle has its own network's besides.
        spec.add(&["network", "plugin"], "flannel".into(), NO_PLUGIN);
        root.tell(
            "a Manifest names no network plugin: flannel, the default, is written and carried; write the cluster's \
             own into spec.network.plugin (KubeKey's is calico), or none where these images bring it",
        );
    }
    if let Some(components) = from.get("components") {
        let registry = registry(&components);
        if let Some(at) = components.get("containerRuntimes") {
            spec.set("runtime", runtime(&at));
            spec.came_from("runtime", at.origin());
        }
        spec.set("registry", registry);
        spec.came_from("registry", components.origin());
        for (component, at) in components.fields() {
            match component {
                "containerRuntimes" | "harbor" | "docker-registry" => {}
                _ => at.leave(CHOSEN),
            }
        }
    }
    let mut bundle = Map { origin: Some(from.origin()), ..Map::default() };
    bundle.maybe("platforms", from.get("arches").map(|at| platforms(&at)));
    bundle.maybe("os", from.get("operatingSystems").map(|at| systems(&at)));
    bundle.maybe("extraImages", from.get("images").map(|at| images(&at)));
    spec.set("bundle", bundle);
    if let Some(at) = from.at(&["registry", "auths"]) {
        at.leave("logins of registries that images are fetched from are docker's: `docker login`, or $DOCKER_CONFIG");
    }
    named(&name, spec)
}

fn kubernetes(from: &Place<'_>) -> Map {
    let mut kubernetes = Map::default();
    let mut chosen = false;
    for at in from.items() {
        match (chosen, at.get("type").and_then(|kind| kind.text())) {
            (false, None | Some("kubernetes")) => {
                kubernetes.maybe("version", at.get("version").and_then(|at| at.text()));
                chosen = true;
            }
            (true, _) => at.leave("a bundle is for one version; make another cluster.yaml for this one"),
            (false, Some(_)) => at.leave("only Kubernetes itself is installed"),
        }
    }
    kubernetes
}

fn runtime(from: &Place<'_>) -> Map {
    let mut runtime = Map::default();
    let items = from.items();
    let kind = |at: &Place<'_>| at.get("type").and_then(|kind| kind.text()).unwrap_or_default().to_owned();
    // containerd, where there is a choice: it is what is installed today.
    let chosen = items.iter().position(|at| kind(at) == "containerd").unwrap_or(0);
    for (index, at) in items.iter().enumerate() {
        if index != chosen {
            at.leave("a bundle is for one runtime");
            continue;
        }
        match kind(at).as_str() {
            known @ ("containerd" | "docker") => runtime.set("type", known),
            "crio" | "cri-o" => runtime.set("type", "cri-o"),
            "isula" | "isulad" => runtime.set("type", "isulad"),
            _ => {
                at.leave("there is no such runtime");
                continue;
            }
        }
        runtime.maybe("version", at.get("version").and_then(|at| at.text()).map(bare));
    }
    runtime
}

/// Without `v`, as text: YAML would read 1.7 as a number.
fn bare(version: &str) -> Yaml {
    version.trim_start_matches('v').into()
}

fn registry(components: &Place<'_>) -> Map {
    let (mut registry, mut harbor) = (Map::default(), Map::default());
    match (components.get("harbor"), components.get("docker-registry")) {
        (Some(at), other) => {
            registry.set("type", "harbor");
            harbor.maybe("version", at.get("version").and_then(|at| at.text()).map(bare));
            registry.set("harborConfig", harbor);
            if let Some(at) = other {
                at.leave("a cluster has one registry, and this is harbor");
            }
        }
        (None, Some(at)) => {
            registry.set("type", "registry");
            at.leave(CHOSEN);
        }
        (None, None) => {}
    }
    registry
}

fn platforms(from: &Place<'_>) -> Vec<String> {
    let mut all = Vec::new();
    for at in from.items() {
        match at.text() {
            Some("amd64" | "x86_64") => all.push("linux/amd64".to_owned()),
            Some("arm64" | "aarch64") => all.push("linux/arm64".to_owned()),
            _ => at.leave("bundles are for amd64 and arm64"),
        }
    }
    all.sort();
    all.dedup();
    all
}

/// `ubuntu` `20.04` is `ubuntu-20.04`; one for each, whatever the architectures.
fn systems(from: &Place<'_>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for at in from.items() {
        let text = |name: &str| at.get(name).and_then(|at| at.text());
        let (Some(id), Some(version)) = (text("id"), text("version")) else {
            at.leave("it has no id and version");
            continue;
        };
        let name = format!("{id}-{version}");
        if !all.contains(&name) {
            all.push(name);
        }
        for name in ["arch", "type", "osImage"] {
            at.get(name).inspect(Place::taken);
        }
        if let Some(at) = at.get("repository") {
            at.leave("packages are taken from the distribution's repositories, not from an ISO");
        }
    }
    all
}

fn images(from: &Place<'_>) -> Vec<Map> {
    let (mut all, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
    for at in from.items() {
        let Some(text) = at.text() else {
            at.leave("it is not the name of an image");
            continue;
        };
        match full_reference(text) {
            Ok(name) => {
                if seen.insert(name.clone()) {
                    let mut image = Map { origin: Some(at.origin()), ..Map::default() };
                    image.set("name", name);
                    all.push(image);
                }
            }
            Err(problem) => at.leave(problem),
        }
    }
    all
}
