//! The hosts that serve the bundle's content (`spec.roleGroups.registry`): which is filled first, and which one a host asks first.
//!
//! Each of them has all of it, so any may be lost. With one host everybody asks its name, `registry.<cluster>.kubexm.internal`. With
//! several everybody asks addresses, one after the other: a runtime tries the next registry in its list when one does not
//! answer, and not the next address of a name (decision 0067).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use kubexm_plan::ClusterFacts;
use kubexm_spec::cluster::{Cluster, Keyword as _, RegistryKind, document};
use kubexm_spec::depot::{DepotConfig, Repository, Tls};
use kubexm_spec::{names, one_line};
use serde_json::Value;

use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;
use crate::paths;

/// In the order of the role group. The first is filled by the controller, the others from it.
pub fn hosts<'a>(cx: &PlanContext<'a>) -> Result<Vec<PlannedHost<'a>>, RecipeError> {
    let nodes = cx.nodes()?;
    let place = |wanted: &str| nodes.iter().find(|node| node.name() == wanted).copied();
    Ok(cx.cluster.registry_hosts().into_iter().filter_map(|host| place(&host.name)).collect())
}

/// Whether the controller fills it: the others fetch from it.
pub fn is_source(cluster: &Cluster, host: &str) -> bool {
    cluster.registry_hosts().first().is_some_and(|source| source.name == host)
}

/// In the order in which a host asks them: itself first, and hosts that are none begin with different ones.
pub fn for_host<'a>(cx: &PlanContext<'a>, node: &PlannedHost<'_>) -> Result<Vec<PlannedHost<'a>>, RecipeError> {
    let mut hosts = hosts(cx)?;
    if hosts.is_empty() {
        return Ok(hosts);
    }
    let own = hosts.iter().position(|host| host.name() == node.name());
    // By its name, so that it does not depend on which other hosts there are.
    let name: usize = node.name().bytes().map(usize::from).sum();
    let first = own.unwrap_or(name) % hosts.len();
    hosts.rotate_left(first);
    Ok(hosts)
}

/// The registry hosts that the cluster was given last, if they are not those of cluster.yaml: nodes ask these, and only `create` brings
/// them others.
pub fn other_than_recorded(cluster: &Cluster, running: &ClusterFacts) -> Option<Vec<String>> {
    let recorded = recorded(running)?;
    let wanted: BTreeSet<&str> = cluster.registry_hosts().into_iter().map(|host| host.name.as_str()).collect();
    let same = recorded.iter().map(String::as_str).collect::<BTreeSet<_>>() == wanted;
    (!same).then_some(recorded)
}

/// Where the cluster's Harbor is reached and keeps its data, if cluster.yaml says it otherwise than what was applied last: nodes pull from
/// the one that runs, and nobody moves its data.
pub fn other_harbor(cluster: &Cluster, running: &ClusterFacts) -> Vec<String> {
    let of = |document: &Value, field: &str| document.pointer(&format!("/spec/registry/{field}")).cloned();
    let Some(applied) = &running.applied else { return Vec::new() };
    let now = document(cluster);
    let is_harbor = |document: &Value| of(document, "type").is_some_and(|kind| kind == RegistryKind::Harbor.word());
    if !is_harbor(&now) && !is_harbor(&applied.cluster) {
        return Vec::new();
    }
    let differs = |field: &str| {
        let (now, was) = (of(&now, field), of(&applied.cluster, field));
        let shown = |value: &Option<Value>| {
            value.as_ref().map_or_else(|| "nothing".to_owned(), |value| one_line(&value.to_string()))
        };
        (now != was).then(|| format!("spec.registry.{field} is {}, and the cluster has {}", shown(&now), shown(&was)))
    };
    ["type", "port", "dataDir"].into_iter().filter_map(differs).collect()
}

/// The registry hosts that the cluster was given last; none if it has no record.
pub fn recorded(running: &ClusterFacts) -> Option<Vec<String>> {
    let group = running.applied.as_ref()?.cluster.pointer("/spec/roleGroups/registry")?.as_array()?;
    Some(group.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect())
}

/// The registries that a host's runtime pulls from, in that order: `registry.demo.kubexm.internal:5443`, or addresses.
pub fn pulled_from(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Vec<String>, RecipeError> {
    let hosts = for_host(cx, node)?;
    let port = cx.cluster.registry.port;
    Ok(match hosts.as_slice() {
        [] | [_] => vec![cx.registry_address()],
        several => several.iter().map(|host| at(host, port)).collect(),
    })
}

/// Where a host is asked for content: `10.0.0.1:5443`.
pub fn at(host: &PlannedHost<'_>, port: u16) -> String {
    SocketAddr::from((host.ip, port)).to_string()
}

/// What a registry host is asked by at a port to see whether it serves: with several, by its own address.
pub fn own_address(cluster: &Cluster, ip: IpAddr, port: u16) -> String {
    match cluster.registry_hosts().len() {
        0 | 1 => format!("{}:{port}", names::registry_name(&cluster.name)),
        _ => SocketAddr::from((ip, port)).to_string(),
    }
}

/// Repository folder of an upstream host. A registry's name may contain a port, but a repository's name
/// no colon (OCI distribution-spec, "Pulling manifests"); `_` cannot clash, since no host name contains it.
pub fn folder(cluster: &Cluster, host: &str) -> String {
    match cluster.registry.kind {
        // As `kubexm-install seed` calls it: its projects are named so.
        RegistryKind::Harbor => names::registry_folder(host),
        RegistryKind::Registry => host.to_ascii_lowercase().replace(':', "_"),
        // The user's registry has names of its own (`ExternalRegistry::folder`).
        RegistryKind::Embedded | RegistryKind::External | RegistryKind::None => host.to_owned(),
    }
}

/// Every image of the bundle, under the names that nodes pull.
pub fn repositories(cx: &PlanContext<'_>) -> BTreeMap<String, Repository> {
    // Reuses the depot's list of content; its address and files are not needed here.
    let unused = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let tls = Tls { cert: String::new(), key: String::new() };
    let all = DepotConfig::serving(cx.manifest, unused, paths::STORE, tls).images;
    all.into_iter().map(|(name, repository)| (in_registry(cx.cluster, &name), repository)).collect()
}

/// The name of an image's repository in the cluster's registry: `registry.k8s.io/pause`.
pub fn in_registry(cluster: &Cluster, name: &str) -> String {
    match name.split_once('/') {
        Some((host, path)) => format!("{}/{path}", folder(cluster, host)),
        None => name.to_owned(),
    }
}
