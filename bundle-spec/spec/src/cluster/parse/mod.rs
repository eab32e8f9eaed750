//! Reading cluster.yaml: strict, every problem at once, each with line and column. One file per part of the format; each
//! names the keys it reads and the keys that the format has and nothing builds yet.

mod bundle;
mod hosts;
mod kubernetes;
mod load_balancer;
mod login;
mod node;
mod registry;
mod values;

use super::{Bundle, Cluster, Extra, Network, Registry, Runtime, System};
use crate::names;
use crate::yaml::{self, At, Keys, Mapping, Problems, Sink};

const FILE: Keys = Keys::all(&["apiVersion", "kind", "metadata", "spec"]);
const METADATA: Keys = Keys { known: &["name"], later: &["labels", "annotations"] };
const SPEC: Keys = Keys {
    known: &[
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
        "bundle",
    ],
    later: &["addons", "storage"],
};

/// Reads the text of a cluster.yaml.
///
/// # Errors
/// Every problem of the file, by line and column.
pub fn parse(text: &str) -> Result<Cluster, Problems> {
    let tree = yaml::parse(text)?;
    let sink = Sink::default();
    let cluster = file(&At::root(&tree, &sink));
    sink.finish(cluster)
}

/// A cluster of defaults without hosts, as a bundle is built from when there is no file; `version` as the user gives it.
pub fn for_version(version: Option<&str>) -> Cluster {
    let name = "kubernetes".to_owned();
    let mut kubernetes = kubernetes::defaults(&name);
    kubernetes.version = version.map(|text| format!("v{}", text.strip_prefix('v').unwrap_or(text)));
    Cluster { kubernetes: Some(kubernetes), ..Cluster::named(name) }
}

/// The commented file that `kubexm-bundle init` writes.
pub const fn sample() -> &'static str {
    include_str!("sample.yaml")
}

fn file(at: &At<'_>) -> Option<Cluster> {
    let map = at.mapping(&FILE)?;
    constant(&map, "apiVersion", names::CLUSTER_API_VERSION);
    constant(&map, "kind", "Cluster");
    let name = map
        .need("metadata")
        .and_then(|at| at.mapping(&METADATA))
        .and_then(|map| map.need("name"))
        .and_then(|at| at.parsed(values::label));
    let spec = map.need("spec")?.mapping(&SPEC)?;
    // what is wrong in one part keeps no other part from being read, so `?` comes only after all of them
    let part = |key: &str| spec.get(key);
    let fallback = name.clone().unwrap_or_default();
    let hosts = part("hosts").map_or(Some(Vec::new()), |at| hosts::hosts(&at));
    let roles = hosts::role_groups(&spec);
    let system = part("system").map_or_else(|| Some(node::default_system()), |at| node::system(&at));
    let extra = part("extra").map_or_else(|| Some(Extra::default()), |at| node::extra(&at));
    let kubernetes = if spec.has("bundle") && spec.entries().count() == 1 {
        Some(None)
    } else {
        part("kubernetes")
            .map_or_else(|| Some(kubernetes::defaults(&fallback)), |at| kubernetes::kubernetes(&at, &fallback))
            .map(Some)
    };
    kubernetes::etcd(&spec);
    let load_balancer = load_balancer::load_balancer(&spec);
    let runtime = part("runtime").map_or_else(|| Some(Runtime::default()), |at| kubernetes::runtime(&at));
    let network: Option<Network> = kubernetes::network(&spec, hosts.as_deref().unwrap_or_default());
    let registry: Option<Registry> =
        part("registry").map_or_else(|| Some(registry::default_registry()), |at| registry::registry(&at));
    let bundle: Option<Bundle> = part("bundle").map_or_else(|| Some(Bundle::default()), |at| bundle::bundle(&at));
    let system: Option<System> = system;
    Some(Cluster {
        name: name?,
        hosts: hosts?,
        role_groups: roles?,
        system: system?,
        extra: extra?,
        kubernetes: kubernetes?,
        etcd: Default::default(),
        runtime: runtime?,
        network: network?,
        load_balancer: load_balancer?,
        registry: registry?,
        addons: Vec::new(),
        storage: Default::default(),
        bundle: bundle?,
    })
}

fn constant(map: &Mapping<'_>, key: &str, wanted: &str) {
    if let Some(at) = map.need(key)
        && let Some(found) = at.text()
        && found != wanted
    {
        at.bad(format!("{found:?} is not read by this program"), format!("{wanted} is wanted"));
    }
}

/// The value of an optional key: its default when it is not there, none when it is wrong.
fn or<T>(found: Option<At<'_>>, default: T, read: impl FnOnce(&At<'_>) -> Option<T>) -> Option<T> {
    found.map_or(Some(default), |at| read(&at))
}

/// Like [`or`] for what has no default: `Some(None)` when the key is not there.
fn maybe<T>(found: Option<At<'_>>, read: impl FnOnce(&At<'_>) -> Option<T>) -> Option<Option<T>> {
    found.map_or(Some(None), |at| read(&at).map(Some))
}

/// Every item of a list, or none when one of them is wrong (the others are still read).
fn each<T>(at: &At<'_>, read: impl FnMut(&At<'_>) -> Option<T>) -> Option<Vec<T>> {
    if !at.is_list() {
        at.list();
        return None;
    }
    let read: Vec<Option<T>> = at.list().iter().map(read).collect();
    read.into_iter().collect()
}
