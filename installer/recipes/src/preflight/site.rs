//! The hosts as checks see them: missing values are accepted here, since checks report them.

use std::net::IpAddr;

use kubexm_manifests::Support;
use kubexm_plan::Facts;
use kubexm_spec::Platform;
use kubexm_spec::cluster::Host;

use crate::context::PlanCx;
use crate::packages::{self, NodePackages, NothingComes};
use crate::support;

/// The input of a check.
#[derive(Debug)]
pub(super) struct Site<'a> {
    pub(super) cx: &'a PlanCx<'a>,
    pub(super) hosts: Vec<Seen<'a>>,
    /// The rows of the support matrix for the version in the bundle, when it has one.
    pub(super) support: Option<&'a Support>,
    /// That version, `v1.34.4`.
    pub(super) kubernetes: String,
}

/// A host with facts.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) host: &'a Host,
    pub(super) facts: &'a Facts,
    pub(super) ip: Option<IpAddr>,
    pub(super) platform: Option<Platform>,
    pub(super) control_plane: bool,
    /// Whether it becomes a node; otherwise it only serves the registry.
    pub(super) in_cluster: bool,
    pub(super) registry: bool,
    /// Whether it has the stamp of this cluster: what an earlier run made is not a conflict.
    pub(super) ours: bool,
    /// Packages of its distribution that will be installed.
    pub(super) packages: Result<Option<NodePackages<'a>>, NothingComes>,
}

impl<'a> Site<'a> {
    pub(super) fn of(cx: &'a PlanCx<'a>) -> Self {
        let platform = cx.manifest.platforms.first();
        let kubernetes = platform.and_then(|p| cx.kubernetes_version(*p).ok()).unwrap_or_default();
        let hosts = cx.cluster.hosts.iter().filter_map(|host| cx.facts.get(&host.name).map(|f| seen(cx, host, f)));
        Self { cx, hosts: hosts.collect(), support: support::of(cx.catalogue, &kubernetes).ok(), kubernetes }
    }
}

fn seen<'a>(cx: &PlanCx<'a>, host: &'a Host, facts: &'a Facts) -> Seen<'a> {
    Seen {
        host,
        facts,
        ip: host.node_ip(),
        platform: facts.arch.map(|arch| Platform { arch }),
        control_plane: cx.cluster.role_groups.control_plane.contains(&host.name),
        in_cluster: [&cx.cluster.role_groups.control_plane, &cx.cluster.role_groups.worker]
            .iter()
            .any(|group| group.contains(&host.name)),
        registry: cx.cluster.registry_host().is_some_and(|r| r.name == host.name),
        ours: facts.stamp.as_ref().is_some_and(|stamp| stamp.cluster == cx.cluster.name),
        packages: packages::of_host(cx, &host.name, facts),
    }
}

impl Seen<'_> {
    pub(super) fn name(&self) -> &str {
        &self.host.name
    }

    /// The packages that will be installed on it.
    pub(super) fn comes(&self) -> Option<&NodePackages<'_>> {
        self.packages.as_ref().ok().and_then(Option::as_ref)
    }
}

/// Bytes for people: `3.5 GiB`.
pub(super) fn gib(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 30;
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}
