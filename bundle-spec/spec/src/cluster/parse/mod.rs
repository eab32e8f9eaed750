//! Reading cluster.yaml: strict, every problem at once, each with line and column. One file per part of the format: what its
//! keys are (as data, of which the JSON Schema is made too) and how they are read; [`rules`] are the checks across
//! parts.

pub(super) mod addresses;
pub(super) mod age;
pub(super) mod calendar;
pub(super) mod hosts;
mod load_balancer;
pub(super) mod login;
mod materials;
mod range;
pub(super) mod roles;
mod rules;
mod secret;
pub(super) mod take;
pub(super) mod values;
mod written;

use std::collections::BTreeSet;

use self::hosts::Hosts;
use self::rules::Parts;
use super::addon::{Addons, NamedOnce};
use super::field::{FieldType, optional};
use super::network::Plugin;
use super::{
    Bundle, Cluster, Etcd, Extra, Kubernetes, LoadBalancer, Network, Operator, Registry, Runtime, Storage, System,
};
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
        Field::new("hosts", Hosts::SHAPE, "The machines; a bundle can be built without them"),
        Field::new("roleGroups", Shape::Mapping(&roles::ROLES), "Who does what"),
        Field::new("system", System::SHAPE, "Preparation of every node"),
        Field::new("extra", Extra::SHAPE, "Entries that every node gets"),
        Field::new(
            "operators",
            NamedOnce::<Operator>::SHAPE,
            "Who may change the cluster, each from their own machine",
        ),
        Field::new("kubernetes", Kubernetes::SHAPE, "Kubernetes itself"),
        Field::new("etcd", Etcd::SHAPE, "What the API server keeps its objects in"),
        Field::new("runtime", Runtime::SHAPE, "What runs containers"),
        Field::new("network", Network::SHAPE, "The network of pods and services"),
        Field::new("loadBalancer", LoadBalancer::SHAPE, "Load balancer in front of the control planes"),
        Field::new("registry", Registry::SHAPE, "Where images come from inside the gap"),
        Field::new("addons", Addons::SHAPE, "What runs in the cluster beyond its own, in order"),
        Field::new("storage", Storage::SHAPE, "What makes volumes"),
        Field::new("bundle", Bundle::SHAPE, "What goes into the bundle beyond what the cluster needs"),
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
    let tree = yaml::parse(text).map_err(|problems| of_kubekey(text, problems))?;
    let sink = Sink::default();
    let cluster = file(&At::root(&tree, &sink));
    let seen = Sink::default();
    let written = written::written(&At::root(&tree, &seen));
    sink.finish(cluster).map(|cluster| Read { cluster, written })
}

/// KubeKey writes files of several documents, which is no more than a hint of what the file is.
fn of_kubekey(text: &str, mut problems: Problems) -> Problems {
    let is_kubekey = text.lines().any(|line| line.starts_with("apiVersion:") && line.contains(KUBEKEY));
    if let Some(problem) = problems.0.first_mut().filter(|problem| is_kubekey && problem.hint.is_empty()) {
        problem.hint = IMPORT.to_owned();
    }
    problems
}

/// The group of KubeKey's files.
const KUBEKEY: &str = "kubekey.kubesphere.io/";
const IMPORT: &str = "it is a file of KubeKey: `kubexm-bundle import FILE -o cluster.yaml` converts it";

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
    let hosts = optional::<Hosts>(&spec, "hosts", Vec::new);
    let mut role_groups = roles::role_groups(&spec);
    let system = optional::<System>(&spec, "system", System::default);
    let extra = optional::<Extra>(&spec, "extra", Extra::default);
    let operators = optional::<NamedOnce<Operator>>(&spec, "operators", Vec::new);
    let kubernetes = if spec.has("bundle") && spec.entries().count() == 1 {
        Some(None)
    } else {
        kubernetes(&spec, &fallback).map(Some)
    };
    let etcd = optional::<Etcd>(&spec, "etcd", Etcd::default);
    let runtime = optional::<Runtime>(&spec, "runtime", Runtime::default);
    let network = network(&spec);
    let load_balancer = optional::<LoadBalancer>(&spec, "loadBalancer", LoadBalancer::default);
    let registry = registry(&spec);
    let addons = optional::<Addons>(&spec, "addons", Vec::new);
    let storage = optional::<Storage>(&spec, "storage", Storage::default);
    let bundle = optional::<Bundle>(&spec, "bundle", Bundle::default);
    let parts = Parts {
        hosts: hosts.as_deref().unwrap_or_default(),
        kubernetes: kubernetes.as_ref().and_then(Option::as_ref),
        etcd: etcd.as_ref(),
        network: network.as_ref(),
        load_balancer: load_balancer.as_ref(),
        registry: registry.as_ref(),
        runtime: runtime.as_ref(),
        storage: storage.as_ref(),
        bundle: bundle.as_ref(),
    };
    rules::check(&spec, &parts, role_groups.as_mut());
    let cluster = Cluster {
        name: name?,
        hosts: hosts?,
        role_groups: role_groups?,
        system: system?,
        extra: extra?,
        operators: operators?,
        kubernetes: kubernetes?,
        etcd: etcd?,
        runtime: runtime?,
        network: network?,
        load_balancer: load_balancer?,
        registry: registry?,
        addons: addons?,
        storage: storage?,
        bundle: bundle?,
    };
    materials::check(spec.at(), &cluster);
    Some(cluster)
}

/// Some defaults follow from another field.
fn kubernetes(spec: &Mapping<'_>, cluster: &str) -> Option<Kubernetes> {
    let mut kubernetes = optional::<Kubernetes>(spec, "kubernetes", Kubernetes::default)?;
    if get(spec, "kubernetes", "clusterName").is_none() {
        cluster.clone_into(&mut kubernetes.cluster_name);
    }
    Some(kubernetes)
}

fn network(spec: &Mapping<'_>) -> Option<Network> {
    let mut network = optional::<Network>(spec, "network", Network::default)?;
    network.multus |= Plugin::is_multus(get(spec, "network", "plugin").as_ref());
    Some(network)
}

fn registry(spec: &Mapping<'_>) -> Option<Registry> {
    let mut registry = optional::<Registry>(spec, "registry", Registry::default)?;
    if get(spec, "registry", "port").is_none() {
        registry.port = registry.kind.default_port();
    }
    Some(registry)
}

fn get<'a>(spec: &Mapping<'a>, section: &str, key: &str) -> Option<At<'a>> {
    spec.get(section)?.open_mapping_quiet()?.get(key)
}

fn constant(map: &Mapping<'_>, key: &str, wanted: &str) {
    if let Some(at) = map.need(key)
        && let Some(found) = at.text()
        && found != wanted
    {
        let hint = match found.starts_with(KUBEKEY) {
            true => IMPORT.to_owned(),
            false => format!("expected {wanted}"),
        };
        at.bad(format!("{found:?} is not read by this program"), hint);
    }
}
