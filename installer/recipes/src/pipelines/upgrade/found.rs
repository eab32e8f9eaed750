//! What the running cluster has, node by node, in versions that can be compared.

use std::collections::BTreeMap;

use kubexm_plan::ClusterFacts;
use kubexm_plan::cluster_facts::{COMPONENTS, ETCD, NODES, NodeFacts, SERVER_VERSION};
use kubexm_spec::{KubernetesVersion, Version, depot};

use super::options::UpgradeOptions;
use super::os_packages::OsPackages;
use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;
use crate::modules::kubeadm_upgrade;
use crate::modules::settings::Settings;
use crate::phases::ClusterHosts;
use crate::runtime;

/// The running cluster.
#[derive(Debug)]
pub(super) struct Found<'f> {
    /// The version in the bundle.
    pub target: KubernetesVersion,
    /// The oldest API server.
    pub oldest: KubernetesVersion,
    /// The newest one.
    pub newest_server: KubernetesVersion,
    /// What its nodes have not of cluster.yaml's settings, where kubexm has made it.
    pub settings: Option<Settings>,
    /// Nodes of cluster.yaml that are in the cluster, by name.
    nodes: BTreeMap<&'f str, FoundNode<'f>>,
}

/// A node.
#[derive(Debug)]
pub(super) struct FoundNode<'f> {
    pub facts: &'f NodeFacts,
    /// Version of its kubelet.
    pub kubelet: KubernetesVersion,
    /// Something of Kubernetes is not as in the bundle, or as in cluster.yaml.
    pub other_kubernetes: bool,
    /// The runtime is not the bundle's.
    pub other_runtime: bool,
    /// Installed packages are older than the bundle's, and are upgraded.
    pub older_packages: bool,
    /// Its minor version, or that of its runtime, changes: pods must not run meanwhile.
    pub crosses_minor: bool,
}

impl<'f> Found<'f> {
    /// Refuses a cluster of which something that decides is not known. The runtimes of an adopted one stay as they are.
    pub(super) fn of(
        cx: &PlanContext<'_>,
        site: &ClusterHosts<'_>,
        running: &'f ClusterFacts,
        (adopted, packages): (bool, &OsPackages<'_>),
        now: i64,
    ) -> Result<Self, RecipeError> {
        known(running)?;
        let target = version(&cx.kubernetes_version(site.first.platform)?, "the bundle's kubeadm")?;
        let mut api_servers = Vec::new();
        // A worker may have a pod that says so, too.
        let is_of_plane = |node: &String| cx.cluster.role_groups.control_plane.contains(node);
        let servers = running.components.iter().filter(|one| one.name == "kube-apiserver" && is_of_plane(&one.node));
        for server in servers {
            let tag = depot::split_reference(&server.image).1.unwrap_or_default();
            api_servers.push(version(tag, &format!("kube-apiserver on {}", server.node))?);
        }
        if let Some(text) = &running.server_version {
            api_servers.push(version(text, "the API server")?);
        }
        let newest_server = api_servers.iter().max().unwrap_or(&target).clone();
        let oldest = api_servers.into_iter().min().unwrap_or_else(|| target.clone());
        let settings = if adopted { None } else { Settings::of(cx, &site.first, running, now)? };
        let mut nodes = BTreeMap::new();
        for facts in &running.nodes {
            let Some(node) = site.nodes.iter().find(|node| node.name() == facts.name) else { continue };
            let mut found = FoundNode::of(cx, node, facts, running, &target)?;
            if !adopted {
                found.compare_runtime(cx, node);
            }
            found.other_kubernetes |= settings.as_ref().is_some_and(|settings| settings.is_of(node));
            found.older_packages = packages.of_node(node.name()).is_some();
            nodes.insert(facts.name.as_str(), found);
        }
        let mut found = Self { target, oldest, newest_server, settings, nodes };
        found.finish_what_was_begun(site, running);
        Ok(found)
    }

    /// An earlier upgrade to this version may have ended before kubeadm did what it does once for the cluster, with the last old control
    /// plane: that one may have died, and have been added anew. The first one's step does it then.
    fn finish_what_was_begun(&mut self, site: &ClusterHosts<'_>, running: &ClusterFacts) {
        let tag = running.kube_proxy.as_deref().and_then(|image| depot::split_reference(image).1);
        let is_old = tag.is_some_and(|tag| tag.parse::<KubernetesVersion>().is_ok_and(|proxy| proxy < self.target));
        let mut planes = site.nodes.iter().filter(|node| node.roles.control_plane);
        let is_new = |name: &str| self.node(name).is_none_or(|node| !node.other_kubernetes);
        if is_old
            && planes.all(|node| is_new(node.name()))
            && let Some(first) = self.nodes.get_mut(site.first.name())
        {
            first.other_kubernetes = true;
        }
    }

    /// A node that is in the cluster.
    pub(super) fn node(&self, name: &str) -> Option<&FoundNode<'f>> {
        self.nodes.get(name)
    }

    /// All of them, by name.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&str, &FoundNode<'f>)> {
        self.nodes.iter().map(|(name, node)| (*name, node))
    }
}

impl<'f> FoundNode<'f> {
    fn of(
        cx: &PlanContext<'_>,
        node: &PlannedHost<'_>,
        facts: &'f NodeFacts,
        running: &ClusterFacts,
        target: &KubernetesVersion,
    ) -> Result<Self, RecipeError> {
        let kubelet = version(&facts.kubelet, &format!("kubelet on {}", facts.name))?;
        let mut other_kubernetes = kubelet != *target;
        let crosses_minor = kubelet.minor() != target.minor();
        if node.roles.control_plane {
            let images = kubeadm_upgrade::images(cx, node)?;
            let here = running.components.iter().filter(|component| component.node == facts.name);
            other_kubernetes |= here
                .filter_map(|component| Some((images.get(component.name.as_str())?, &component.image)))
                .any(|(wanted, found)| wanted != found);
        }
        Ok(Self { facts, kubelet, other_kubernetes, other_runtime: false, older_packages: false, crosses_minor })
    }

    fn compare_runtime(&mut self, cx: &PlanContext<'_>, node: &PlannedHost<'_>) {
        if let Some(bundled) = runtime::version(cx, node)
            && self.facts.runtime == cx.cluster.runtime.kind.to_string()
        {
            // What a builder has put behind a `+` is no other version (semver.org, 10).
            let found = self.facts.runtime_version.trim_start_matches('v').split('+').next().unwrap_or_default();
            self.other_runtime = found != bundled;
            self.crosses_minor |= Version::of(found).line() != Version::of(bundled).line();
        }
    }

    /// Whether it has the mark of a node that kubexm has cordoned.
    pub(super) fn cordoned_by(&self, mark: &str) -> bool {
        self.facts.cordoned_by.as_deref() == Some(mark)
    }

    /// Whether something of it has to be upgraded.
    pub(super) const fn differs(&self) -> bool {
        self.other_kubernetes || self.other_runtime || self.older_packages
    }

    /// Whether no pods may run on it in its turn.
    pub(super) const fn drains(&self, options: &UpgradeOptions) -> bool {
        self.differs() && (self.crosses_minor || self.older_packages || options.always_drain)
    }
}

/// The mark of nodes that an upgrade of this cluster has cordoned.
pub(super) fn cordoned_by(cx: &PlanContext<'_>) -> String {
    let cluster = cx.cluster_id.map_or_else(|| cx.cluster.name.clone(), |id| id.to_string());
    format!("upgrade of {cluster}")
}

fn version(text: &str, of: &str) -> Result<KubernetesVersion, RecipeError> {
    text.parse().map_err(|_| RecipeError::Unobserved {
        what: "a version of Kubernetes",
        gaps: vec![format!("{of} reports {text:?}")],
    })
}

/// Refuses to decide about a cluster that does not answer.
pub(super) fn known(running: &ClusterFacts) -> Result<(), RecipeError> {
    let (what, names) = match () {
        () if running.server_version.is_none() || running.nodes.is_empty() => {
            ("the nodes of the cluster", [SERVER_VERSION, NODES])
        }
        () if running.components.is_empty() => ("the static pods of the control planes", [COMPONENTS, COMPONENTS]),
        () if running.etcd.is_empty() => ("the members of etcd", [ETCD, ETCD]),
        () => return Ok(()),
    };
    let gaps = running.gaps.iter().filter(|gap| names.contains(&gap.what.as_str()));
    let gaps = gaps.map(|gap| format!("{}: {}: {}", gap.host, gap.what, gap.why)).collect();
    Err(RecipeError::Unobserved { what, gaps })
}
