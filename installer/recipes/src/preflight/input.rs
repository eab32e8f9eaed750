//! The hosts as checks see them: missing values are accepted here, since checks report them.

use std::net::IpAddr;

use kubexm_manifests::{NodeRole, Support};
use kubexm_plan::Facts;
use kubexm_spec::Platform;
use kubexm_spec::cluster::{Host, Roles};

use crate::context::PlanContext;
use crate::packages::{self, CannotInstall, NodePackages};
use crate::support;

/// The input of a check.
#[derive(Debug)]
pub(super) struct PreflightInput<'a> {
    pub(super) cx: &'a PlanContext<'a>,
    pub(super) hosts: Vec<ObservedHost<'a>>,
    /// The rows of the support matrix for the version in the bundle, when it has one.
    pub(super) support: Option<&'a Support>,
    /// That version, `v1.34.4`.
    pub(super) kubernetes: String,
}

/// A host with facts.
#[derive(Debug)]
pub(super) struct ObservedHost<'a> {
    pub(super) spec: &'a Host,
    pub(super) facts: &'a Facts,
    pub(super) ip: Option<IpAddr>,
    pub(super) platform: Option<Platform>,
    /// Its roles in the cluster.
    pub(super) roles: Roles,
    /// Whether it has the stamp of this cluster: what an earlier run made is not a conflict.
    pub(super) ours: bool,
    /// Packages of its distribution that will be installed.
    pub(super) packages: Result<Option<NodePackages<'a>>, CannotInstall>,
}

impl<'a> PreflightInput<'a> {
    pub(super) fn of(cx: &'a PlanContext<'a>) -> Self {
        let platform = cx.manifest.platforms.first();
        let kubernetes = platform.and_then(|p| cx.kubernetes_version(*p).ok()).unwrap_or_default();
        let hosts = cx.cluster.hosts.iter().filter_map(|host| cx.facts.get(&host.name).map(|f| observed(cx, host, f)));
        Self { cx, hosts: hosts.collect(), support: support::of(cx.catalogue, &kubernetes).ok(), kubernetes }
    }
}

impl<'a> PreflightInput<'a> {
    /// Hosts that become nodes of the cluster: those with a kubelet, a container runtime and pods.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &ObservedHost<'a>> {
        self.hosts.iter().filter(|host| host.roles.in_cluster())
    }

    /// Hosts of the load balancer, if kubexm installs it.
    pub(super) fn load_balancers(&self) -> impl Iterator<Item = &ObservedHost<'a>> {
        self.hosts.iter().filter(|host| host.roles.load_balancer)
    }
}

fn observed<'a>(cx: &PlanContext<'a>, host: &'a Host, facts: &'a Facts) -> ObservedHost<'a> {
    ObservedHost {
        spec: host,
        facts,
        ip: host.node_ip(),
        platform: facts.arch.map(|arch| Platform { arch }),
        roles: cx.cluster.roles(&host.name),
        ours: facts.stamp.as_ref().is_some_and(|stamp| stamp.cluster == cx.cluster.name),
        packages: packages::of_host(cx, &host.name, facts),
    }
}

impl ObservedHost<'_> {
    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }

    /// Whether this host gets a program that hosts of this role get.
    pub(super) const fn gets(&self, role: NodeRole) -> bool {
        match role {
            NodeRole::All | NodeRole::Worker => self.roles.in_cluster(),
            NodeRole::ControlPlane => self.roles.control_plane,
            NodeRole::Etcd => self.roles.etcd,
            NodeRole::Registry => self.roles.registry,
        }
    }

    /// The packages that will be installed on it.
    pub(super) fn planned_packages(&self) -> Option<&NodePackages<'_>> {
        self.packages.as_ref().ok().and_then(Option::as_ref)
    }
}

/// Bytes for people: `3.5 GiB`.
pub(super) fn gib(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 30;
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}
