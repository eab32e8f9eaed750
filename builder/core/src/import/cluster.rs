//! KubeKey's `Cluster`, field by field (its API: kubekey.kubesphere.io/v1alpha2, `ClusterSpec`).

mod addons;
mod etcd;
mod hosts;
mod kubernetes;
mod network;
mod registry;

use super::defaults::{self, Assumed, Defaults};
use super::fields::{known, name, same};
use super::source::Place;
use super::yaml::{Map, cluster as named};
use etcd::etcd;
use hosts::{hosts, roles, system};
use kubernetes::kubernetes;
use network::{dns, load_balancer, network};
use registry::{registry, storage};

/// As people look for them.
const ORDER: &[&str] = &[
    "hosts",
    "roleGroups",
    "system",
    "extra",
    "kubernetes",
    "etcd",
    "runtime",
    "network",
    "loadBalancer",
    "registry",
    "addons",
    "storage",
    "bundle",
];

/// The whole file, and the defaults of KubeKey for fields that it does not set.
pub fn cluster(root: &Place<'_>, defaults: Defaults) -> (Map, Vec<Assumed>) {
    known(root);
    let name = name(root, "cluster");
    let mut spec = Map::default();
    let Some(from) = root.get("spec").filter(Place::is_block) else { return (named(&name, spec), Vec::new()) };
    let part = |name: &str| from.get(name);
    let block = |spec: &mut Map, name: &str, map: Map, at: &Place<'_>| {
        spec.set(name, map);
        spec.came_from(name, at.origin());
    };
    if let Some(at) = part("hosts") {
        spec.set("hosts", hosts(&at));
        spec.came_from("hosts", at.origin());
    }
    let etcd_type = from.at(&["etcd", "type"]).and_then(|at| at.text());
    for (old, new, read) in [
        ("system", "system", system as fn(&Place<'_>) -> Map),
        ("dns", "extra", dns),
        ("kubernetes", "kubernetes", kubernetes),
        ("etcd", "etcd", etcd),
        ("network", "network", network),
        ("controlPlaneEndpoint", "loadBalancer", load_balancer),
        ("storage", "storage", storage),
    ] {
        if let Some(at) = part(old) {
            block(&mut spec, new, read(&at), &at);
        }
    }
    if let Some(at) = part("roleGroups") {
        block(&mut spec, "roleGroups", roles(&at, etcd_type), &at);
    }
    spec.set("runtime", runtime(&from));
    if let Some(at) = part("registry") {
        block(&mut spec, "registry", registry(&at, from.at(&["roleGroups", "registry"]).is_some()), &at);
    }
    if let Some(at) = part("addons") {
        spec.set("addons", addons::addons(&at));
        spec.came_from("addons", at.origin());
    }
    let mut bundle = Map::default();
    bundle.set("platforms", platforms(&from));
    spec.set("bundle", bundle);
    if let Some(at) = part("kubesphere") {
        at.leave("KubeSphere is not installed by this program; carry its chart with spec.bundle.extraCharts");
    }
    let write = defaults == Defaults::Write;
    let mut assumed = part("hosts").map(|at| hosts::default_keys(&at, &mut spec, write)).unwrap_or_default();
    // Some rows depend on what others write: without writing any, they are found on a copy.
    match defaults {
        Defaults::Write => assumed.extend(defaults::apply(root, &mut spec)),
        Defaults::Report | Defaults::Comment => {
            let found = defaults::apply(root, &mut spec.clone());
            assumed.extend(found.into_iter().map(|one| Assumed { written_as: None, ..one }));
        }
    }
    spec.order(ORDER);
    (named(&name, spec), assumed)
}

/// What the hosts need, where a host says that it is another one than those that bundles are for by themselves.
fn platforms(spec: &Place<'_>) -> Vec<&'static str> {
    let hosts = spec.get("hosts").map(|at| at.items()).unwrap_or_default();
    let arm = |at: &Place<'_>| {
        at.get("arch").and_then(|at| at.text()).is_some_and(|arch| matches!(arch, "arm64" | "aarch64"))
    };
    let count = hosts.iter().filter(|at| arm(at)).count();
    match count {
        0 => Vec::new(),
        _ if count == hosts.len() => vec!["linux/arm64"],
        _ => vec!["linux/amd64", "linux/arm64"],
    }
}

fn runtime(spec: &Place<'_>) -> Map {
    let mut runtime = Map::default();
    if let Some(at) = spec.at(&["kubernetes", "containerManager"]) {
        let kind = match at.text() {
            Some(kind @ ("docker" | "containerd")) => kind,
            Some("crio" | "cri-o") => "cri-o",
            Some("isula" | "isulad") => "isulad",
            _ => {
                at.leave("it is none of containerd, docker, crio and isula; containerd is written");
                "containerd"
            }
        };
        runtime.set("type", kind);
        runtime.came_from("type", at.origin());
    }
    if let Some(at) = spec.at(&["kubernetes", "containerRuntimeEndpoint"]) {
        at.leave("the socket follows from the runtime");
    }
    if let Some(at) = spec.get("registry") {
        same(&at, &mut runtime, &[("dataRoot", "dataDir")]);
    }
    runtime
}
