//! Prepares hosts up to the point where kubeadm runs: host → store → packages → runtime → kubelet. All hosts run in
//! parallel; on one host, what takes long (the runtime with its images, the programs) runs in parallel too.

use std::collections::BTreeMap;

use kubexm_plan::StepId;

use super::{ClusterHosts, Serves};
use crate::balancer::kube_vip;
use crate::context::PlannedHost;
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::modules::{
    authorities, control_plane, dns, etcd_listed, images, join, kubernetes, os, packages, route, time, volumes,
};
use crate::packages::NodePackages;
use crate::{network, runtime};

/// Prepared hosts.
#[derive(Debug, Default)]
pub struct Prepared<'a> {
    /// By host: the steps that must be done before kubeadm runs there.
    ready: BTreeMap<&'a str, Vec<StepId>>,
    /// By host: the steps after which its content is there and its packages are installed.
    stored: BTreeMap<&'a str, Chain>,
    /// By host: the steps that set its clock.
    pub(super) clocks: BTreeMap<&'a str, Vec<StepId>>,
    /// Hosts whose packages are installed and whose clocks are set next, in the order of the plan.
    pub(super) packaged: Vec<Packaged<'a>>,
    /// The step that installs helm on the first control plane, if it gets it.
    pub helm: Vec<StepId>,
    /// The steps that install the tools of administrators on the first control plane: those of etcd restore the data of a backup.
    pub tools: Vec<StepId>,
}

/// A host after its packages are installed.
#[derive(Debug)]
pub(super) struct Packaged<'a> {
    pub node: PlannedHost<'a>,
    /// The packages that are installed on it.
    pub to_install: Option<NodePackages<'a>>,
    /// A chain that starts after the packages.
    pub chain: Chain,
}

impl<'a> Prepared<'a> {
    /// A chain on a host that starts when the host is prepared.
    pub fn chain(&self, node: &PlannedHost<'_>) -> Chain {
        Chain::after(self.ready.get(node.name()).into_iter().flatten().cloned())
    }

    /// A chain on a host that starts when the bundle's content is on it, and not only when it is prepared for kubeadm.
    pub(super) fn after_store(&self, node: &PlannedHost<'_>) -> Chain {
        self.stored.get(node.name()).map_or_else(|| self.chain(node), Chain::fork)
    }

    /// The steps after which a host's clock is right; none where nothing sets it.
    pub(super) fn clock(&self, node: &PlannedHost<'_>) -> &[StepId] {
        self.clocks.get(node.name()).map_or(&[], Vec::as_slice)
    }

    /// Adds steps that must be done before kubeadm runs.
    pub(super) fn extend(&mut self, node: &PlannedHost<'a>, steps: Vec<StepId>) {
        self.ready.entry(&node.host.name).or_default().extend(steps);
    }
}

/// Prepares every host.
pub fn prepare<'a>(draft: &mut Draft<'a>, site: &ClusterHosts<'a>) -> Result<Prepared<'a>, RecipeError> {
    let mut prepared = Prepared::default();
    let mut serves = Serves::default();
    for node in site.in_order() {
        let to_install = packages::of_node(draft.cx, node)?;
        let host = Host { site, node, to_install: to_install.as_ref() };
        let mut chain = Chain::default();
        chain.then(os::steps(draft, node)?);
        chain.then(authorities::step(draft, node));
        serves.store(draft, node, to_install.as_ref().as_slice(), &mut chain)?;
        let mut registry = chain.fork();
        serves.services(draft, node, &mut registry)?;
        let packaged = host.packages(draft, &mut chain);
        prepared.stored.insert(&node.host.name, packaged.fork());
        if node.in_cluster() {
            chain.then(route::step(draft, node)?);
            chain.then(network::pod_networks(draft, node));
            chain.then(volumes::folder(draft.cx, node));
            let (mut runtime, mut kubelet) = (chain.fork(), chain.fork());
            host.runtime(draft, &mut runtime, registry, &serves.images)?;
            host.kubelet(draft, &mut kubelet)?;
            chain.merge(runtime);
            chain.merge(kubelet);
            // Only the installation of charts calls one of these tools, so kubeadm does not wait for them.
            let mut tools = chain.fork();
            let helm = kubernetes::helm(draft, node)?;
            if site.is_first(node) {
                prepared.helm = helm.iter().map(|step| step.id.clone()).collect();
            }
            let of_etcd = kubernetes::tools(draft, node)?;
            if site.is_first(node) {
                prepared.tools = of_etcd.iter().map(|step| step.id.clone()).collect();
            }
            tools.together(of_etcd.into_iter().chain(helm));
            chain.merge_unawaited(tools);
        } else {
            chain.merge(registry);
        }
        prepared.extend(node, draft.add(chain));
        prepared.packaged.push(Packaged { node: *node, to_install, chain: packaged });
    }
    Ok(prepared)
}

/// A host whose chain is being built.
struct Host<'s, 'a> {
    site: &'s ClusterHosts<'a>,
    node: &'s PlannedHost<'a>,
    to_install: Option<&'s NodePackages<'a>>,
}

impl Host<'_, '_> {
    /// Packages whose programs later steps call. Other hosts that fetch from the registry do not wait for them. Returns
    /// a chain that starts when they are installed.
    fn packages(&self, draft: &mut Draft<'_>, chain: &mut Chain) -> Chain {
        chain.then(time::stop_others(draft.cx.cluster, self.node, self.to_install));
        if let Some(to_install) = self.to_install {
            chain.then(packages::steps(draft, self.node, to_install));
        }
        chain.fork()
    }

    /// The container runtime, and the images that must be on the node in advance.
    fn runtime(
        &self,
        draft: &mut Draft<'_>,
        chain: &mut Chain,
        registry: Chain,
        serves: &[StepId],
    ) -> Result<(), RecipeError> {
        chain.then(runtime::steps(draft, self.node)?);
        chain.merge(registry);
        chain.wait(serves);
        chain.together(images::steps(draft.cx, self.node)?);
        Ok(())
    }

    fn kubelet(&self, draft: &mut Draft<'_>, chain: &mut Chain) -> Result<(), RecipeError> {
        chain.then(kubernetes::steps(draft, self.node)?);
        chain.then(dns::resolv_conf(draft, self.node)?);
        if self.site.is_first(self.node) {
            // Where members are missing in it, it is changed with what the API server asks, as one.
            if etcd_listed::unlisted(draft.cx)?.is_empty() {
                chain.then([control_plane::configure(draft, self.node)?]);
            }
            chain.then(kube_vip::before_init(draft, self.node)?);
        } else {
            chain.then(join::patch(draft, &self.site.first, self.node)?);
        }
        Ok(())
    }
}
