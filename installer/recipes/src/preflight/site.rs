//! The hosts as checks look at them: lenient, since what lacks is for the checks to say.

use std::net::IpAddr;

use kubexm_manifests::{NodeRole, Support};
use kubexm_plan::Facts;
use kubexm_spec::Platform;
use kubexm_spec::cluster::{Host, Roles};

use crate::context::PlanCx;
use crate::packages::{self, NodePackages, NothingComes};
use crate::support;

/// Everything a check may look at.
#[derive(Debug)]
pub(super) struct Site<'a> {
    pub(super) cx: &'a PlanCx<'a>,
    pub(super) hosts: Vec<Seen<'a>>,
    /// The rows of the support matrix for the version in the bundle, when it has one.
    pub(super) support: Option<&'a Support>,
    /// That version, `v1.34.4`.
    pub(super) kubernetes: String,
}

/// A host that was looked at.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) host: &'a Host,
    pub(super) facts: &'a Facts,
    pub(super) ip: Option<IpAddr>,
    pub(super) platform: Option<Platform>,
    /// What it is to do in the cluster.
    pub(super) roles: Roles,
    /// Our stamp of this very cluster is on it: what a former run made is not in the way.
    pub(super) ours: bool,
    /// What of its distribution's packages comes to it.
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

impl<'a> Site<'a> {
    /// Hosts that become nodes of the cluster: those with a kubelet, a container runtime and pods.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Seen<'a>> {
        self.hosts.iter().filter(|seen| seen.roles.in_cluster())
    }

    /// Hosts of the load balancer, where it is ours.
    pub(super) fn load_balancers(&self) -> impl Iterator<Item = &Seen<'a>> {
        self.hosts.iter().filter(|seen| seen.roles.load_balancer)
    }
}

fn seen<'a>(cx: &PlanCx<'a>, host: &'a Host, facts: &'a Facts) -> Seen<'a> {
    Seen {
        host,
        facts,
        ip: host.node_ip(),
        platform: facts.arch.map(|arch| Platform { arch }),
        roles: cx.cluster.roles(&host.name),
        ours: facts.stamp.as_ref().is_some_and(|stamp| stamp.cluster == cx.cluster.name),
        packages: packages::of_host(cx, &host.name, facts),
    }
}

impl Seen<'_> {
    pub(super) fn name(&self) -> &str {
        &self.host.name
    }

    /// Whether what is for hosts of a role comes to it.
    pub(super) const fn gets(&self, role: NodeRole) -> bool {
        match role {
            NodeRole::All | NodeRole::Worker => self.roles.in_cluster(),
            NodeRole::ControlPlane => self.roles.control_plane,
            NodeRole::Etcd => self.roles.etcd,
            NodeRole::Registry => self.roles.registry,
        }
    }

    /// The packages that come to it.
    pub(super) fn comes(&self) -> Option<&NodePackages<'_>> {
        self.packages.as_ref().ok().and_then(Option::as_ref)
    }
}

/// Bytes for people: `3.5 GiB`.
pub(super) fn gib(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 30;
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}
