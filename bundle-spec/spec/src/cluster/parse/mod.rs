//! Reading cluster.yaml: strict, every problem at once, each with line and column. One file per part of the format: what its
//! keys are (as data, of which the JSON Schema is made too) and how they are read; [`rules`] are the checks across
//! parts.

mod addons;
mod addresses;
mod bundle;
mod etcd;
mod hosts;
mod kubernetes;
mod load_balancer;
mod login;
mod network;
mod registry;
mod roles;
mod rules;
mod runtime;
mod secret;
mod system;
mod take;
mod values;
mod written;

use std::collections::BTreeSet;

use self::rules::Parts;
use super::{Bundle, Cluster, Etcd, Extra, Kubernetes, LoadBalancer, Network, Registry, Runtime, Storage, System};
use crate::names;
use crate::yaml::{self, At, Field, Mapping, Object, Problems, Shape, Sink};

/// The whole file.
pub const FILE: Object = Object::new(
    "A cluster for kubexm-bundle, which builds the bundle, and kubexm-install, which installs from it",
    &[
        Field::needed("apiVersion", Shape::Constant(names::CLUSTER_API_VERSION), "Version of this format"),
        Field::needed("kind", Shape::Constant("Cluster"), "Kind of this file"),
        Field::needed("metadata", Shape::Mapping(&METADATA), "What it is called"),
        Field::needed("spec", Shape::Mapping(&SPEC), "What it is; with nothing but bundle, only a bundle of extras"),
    ],
);

const METADATA: Object = Object::new(
    "What the cluster is called",
    &[Field::needed("name", Shape::Form("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"), "Part of names inside the cluster")],
);

const SPEC: Object = Object::new(
    "What the cluster is",
    &[
        Field::new(
            "hosts",
            Shape::List(&Shape::Mapping(&hosts::HOST)),
            "The machines; a bundle can be built without them",
        ),
        Field::new("roleGroups", Shape::Mapping(&roles::ROLES), "Who does what"),
        Field::new("system", Shape::Mapping(&system::SYSTEM), "Preparation of every node"),
        Field::new("extra", Shape::Mapping(&system::EXTRA), "Entries that every node gets"),
        Field::new("kubernetes", Shape::Mapping(&kubernetes::KUBERNETES), "Kubernetes itself"),
        Field::new("etcd", Shape::Mapping(&etcd::ETCD), "What the API server keeps its objects in"),
        Field::new("runtime", Shape::Mapping(&runtime::RUNTIME), "What runs containers"),
        Field::new("network", Shape::Mapping(&network::NETWORK), "The network of pods and services"),
        Field::new(
            "loadBalancer",
            Shape::Mapping(&load_balancer::LOAD_BALANCER),
            "Load balancer in front of the control planes",
        ),
        Field::new("registry", Shape::Mapping(&registry::REGISTRY), "Where images come from inside the gap"),
        Field::new(
            "addons",
            Shape::List(&Shape::Mapping(&addons::ADDON)),
            "What runs in the cluster beyond its own, in order",
        ),
        Field::new("storage", Shape::Mapping(&addons::STORAGE), "What makes volumes"),
        Field::new(
            "bundle",
            Shape::Mapping(&bundle::BUNDLE),
            "What goes into the bundle beyond what the cluster needs",
        ),
    ],
);

/// A file that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// Its content, with defaults filled in.
    pub cluster: Cluster,
    /// Paths of all that is written in it, `spec.hosts[0].port`; the rest are defaults.
    pub written: BTreeSet<String>,
}

/// Reads the text of a cluster.yaml.
///
/// # Errors
/// Every problem of the file, by line and column.
pub fn parse(text: &str) -> Result<Cluster, Problems> {
    read(text).map(|read| read.cluster)
}

/// Reads the text of a cluster.yaml, and records which fields were written.
///
/// # Errors
/// Every problem of the file, by line and column.
pub fn read(text: &str) -> Result<Read, Problems> {
    let tree = yaml::parse(text)?;
    let sink = Sink::default();
    let cluster = file(&At::root(&tree, &sink));
    let seen = Sink::default();
    let written = written::written(&At::root(&tree, &seen));
    sink.finish(cluster).map(|cluster| Read { cluster, written })
}

/// A cluster of defaults without hosts, as a bundle is built from when there is no file; `version` as the user gives it.
pub fn for_version(version: Option<&str>) -> Cluster {
    let mut cluster = Cluster::named("kubernetes");
    if let Some(kubernetes) = &mut cluster.kubernetes {
        kubernetes.version = version.map(|text| format!("v{}", text.strip_prefix('v').unwrap_or(text)));
    }
    cluster
}

/// The commented file that `kubexm-bundle init` writes.
pub const fn sample() -> &'static str {
    super::Profile::Minimal.text()
}

/// A full image reference as `spec.bundle.extraImages` takes it; short names are completed as docker does. The error says what
/// is wrong, for people.
pub fn full_reference(text: &str) -> Result<String, String> {
    values::image(text)
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
    let fallback = name.clone().unwrap_or_default();
    let hosts = part(&spec, "hosts", Vec::new, hosts::hosts);
    let mut role_groups = roles::role_groups(&spec);
    let system = part(&spec, "system", System::default, system::system);
    let extra = part(&spec, "extra", Extra::default, system::extra);
    let kubernetes = if spec.has("bundle") && spec.entries().count() == 1 {
        Some(None)
    } else {
        let default = || Kubernetes::named(&fallback);
        part(&spec, "kubernetes", default, |at| kubernetes::kubernetes(at, &fallback)).map(Some)
    };
    let etcd = part(&spec, "etcd", Etcd::default, etcd::etcd);
    let runtime = part(&spec, "runtime", Runtime::default, runtime::runtime);
    let network = part(&spec, "network", Network::default, network::network);
    let load_balancer = part(&spec, "loadBalancer", LoadBalancer::default, load_balancer::load_balancer);
    let registry = part(&spec, "registry", Registry::default, registry::registry);
    let addons = part(&spec, "addons", Vec::new, addons::addons);
    let storage = part(&spec, "storage", Storage::default, addons::storage);
    let bundle = part(&spec, "bundle", Bundle::default, bundle::bundle);
    let parts = Parts {
        hosts: hosts.as_deref().unwrap_or_default(),
        kubernetes: kubernetes.as_ref().and_then(Option::as_ref),
        etcd: etcd.as_ref(),
        network: network.as_ref(),
        load_balancer: load_balancer.as_ref(),
        bundle: bundle.as_ref(),
    };
    rules::check(&spec, &parts, role_groups.as_mut());
    Some(Cluster {
        name: name?,
        hosts: hosts?,
        role_groups: role_groups?,
        system: system?,
        extra: extra?,
        kubernetes: kubernetes?,
        etcd: etcd?,
        runtime: runtime?,
        network: network?,
        load_balancer: load_balancer?,
        registry: registry?,
        addons: addons?,
        storage: storage?,
        bundle: bundle?,
    })
}

fn part<T>(
    spec: &Mapping<'_>,
    key: &str,
    default: impl FnOnce() -> T,
    read: impl FnOnce(&At<'_>) -> Option<T>,
) -> Option<T> {
    spec.get(key).map_or_else(|| Some(default()), |at| read(&at))
}

fn constant(map: &Mapping<'_>, key: &str, wanted: &str) {
    if let Some(at) = map.need(key)
        && let Some(found) = at.text()
        && found != wanted
    {
        at.bad(format!("{found:?} is not read by this program"), format!("{wanted} is wanted"));
    }
}
