//! A cluster that was adopted: what an upgrade by hand with kubeadm does is done, and all else that others have made is left alone.

use std::collections::BTreeMap;

use kubexm_plan::kubeadm_certificates::ADMIN_CONF;
use kubexm_plan::{CONTROLLER, ClusterFacts, ClusterId, Plan, Probe, Step, Undo};
use kubexm_spec::cluster::EtcdKind;
use kubexm_spec::{Digest, Program};

use super::by_hand;
use super::found::{self, Found};
use crate::adoption;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::modules::kubeadm_upgrade::{self, Configuration};
use crate::modules::{depot, images, kubeconfig, kubernetes, os};
use crate::paths;
use crate::phases::ClusterHosts;

/// Programs that take a snapshot of etcd, and verify it.
const ETCD_TOOLS: [&str; 2] = ["etcdctl", "etcdutl"];

/// A cluster that was adopted, and that an upgrade knows all of that decides.
#[derive(Debug)]
pub(super) struct AdoptedCluster<'f> {
    id: ClusterId,
    running: &'f ClusterFacts,
}

impl<'f> AdoptedCluster<'f> {
    /// None for a cluster that kubexm has made.
    ///
    /// # Errors
    /// It is upgraded by hand, and why; what decides is not known; or hosts do not say alike whether it was adopted.
    pub(super) fn of(
        cx: &PlanContext<'_>,
        site: &ClusterHosts<'_>,
        running: &'f ClusterFacts,
    ) -> Result<Option<Self>, RecipeError> {
        if !adoption::agreed(cx.cluster, cx.facts)? {
            return adopted_by_no_control_plane(cx, site).map(|()| None);
        }
        // API servers that do not answer are no reason to upgrade by hand.
        found::known(running)?;
        by_hand::refuse(cx, site, running)?;
        let id = site.first.facts.stamp.as_ref().and_then(|stamp| stamp.id);
        Ok(id.map(|id| Self { id, running }))
    }

    /// What the operator should know, one sentence each.
    pub(super) fn warnings(&self, cx: &PlanContext<'_>, site: &ClusterHosts<'_>, found: &Found<'_>) -> Vec<String> {
        let changes = |node: &PlannedHost<'_>| found.node(node.name()).is_some_and(|found| found.other_kubernetes);
        if !site.members().iter().any(changes) {
            return Vec::new();
        }
        let mut warnings = vec![REWRITTEN.to_owned(), addons(self.running.kube_proxy.is_some())];
        if found.nodes().any(|(_, node)| node.crosses_minor) {
            warnings.push(format!(
                "the container runtime, the pod network, add-ons and load balancers stay as they are: look up first whether their versions work \
                 with Kubernetes {}",
                found.target
            ));
        }
        let planes = std::iter::once(&site.first).chain(&site.others).filter(|plane| changes(plane));
        warnings.extend(adoption::left_running(planes.map(|plane| plane.facts)));
        warnings.extend(adoption::no_operator(cx.cluster, self.running, site.first.name()));
        warnings
    }

    /// Puts the programs and the images that kubeadm asks for on a node, with the new kubeadm. A host that is no node gets nothing.
    pub(super) fn stage(
        &self,
        draft: &Draft<'_>,
        first: &PlannedHost<'_>,
        node: &PlannedHost<'_>,
        kubeadm: Vec<Step>,
    ) -> Result<Chain, RecipeError> {
        let (cx, mut chain) = (draft.cx, Chain::default());
        if !node.in_cluster() {
            return Ok(chain);
        }
        // Of an etcd of others no snapshot is taken.
        let takes = node.name() == first.name() && cx.cluster.etcd.kind == EtcdKind::Kubeadm;
        let tools: Vec<&str> = match takes {
            true => ETCD_TOOLS.into_iter().filter(|tool| !self.has(node, tool)).collect(),
            false => Vec::new(),
        };
        let images = images::of_kubeadm(cx, node)?;
        let mut artifacts: Vec<_> = images.iter().map(|(_, artifact)| *artifact).collect();
        for program in [Program::Kubeadm, Program::Kubelet, Program::Kubectl] {
            artifacts.push(cx.program(program, node.platform)?);
        }
        if !tools.is_empty() {
            artifacts.push(cx.program(Program::Etcd, node.platform)?);
        }
        let blobs = artifacts.iter().flat_map(|artifact| artifact.blobs.iter().map(|blob| (blob.digest, blob.size)));
        chain.then([depot::fill(cx, node, blobs.collect::<BTreeMap<_, _>>())]);
        let mut beside = chain.fork();
        let asked = self.etcd().filter(|_| node.roles.control_plane && !kubeadm.is_empty());
        beside.then(kubeadm);
        beside.then(asked.map(|probe| etcd_files(node, probe)));
        if !tools.is_empty() {
            chain.then([kubernetes::etcd_tools(cx, node, &tools)?]);
        }
        chain.together(images.iter().map(|(name, artifact)| images::step(cx, node, name, artifact)));
        chain.merge(beside);
        Ok(chain)
    }

    fn has(&self, node: &PlannedHost<'_>, program: &str) -> bool {
        by_hand::program(self.running, node.name(), program).is_some()
    }

    /// What kubeadm does in a node's turn, with what follows from it on the controller.
    pub(super) fn kubeadm(
        &self,
        draft: &mut Draft<'_>,
        first: &PlannedHost<'_>,
        node: &PlannedHost<'_>,
    ) -> Result<(Vec<Step>, Option<Step>), RecipeError> {
        let is_first = node.name() == first.name();
        let mut steps = Vec::new();
        if is_first {
            steps.push(kubeadm_upgrade::preflight(draft, first, self.configuration())?);
        }
        let upgraded = kubeadm_upgrade::step(draft, first, node, self.configuration())?;
        let tells = is_first && adoption::no_operator(draft.cx.cluster, self.running, first.name()).is_none();
        // kubeadm renews the certificates.
        let operator = tells.then(|| kubeconfig::of_operator(draft, node, &upgraded.id));
        steps.push(upgraded);
        if node.roles.control_plane {
            steps.extend(self.admin(node).map(|was| kubeconfig::of_adopted(node, was)));
        }
        Ok((steps, operator))
    }

    /// What is not known was refused.
    const fn configuration(&self) -> Configuration {
        Configuration::Theirs { kube_proxy: self.running.kube_proxy.is_some() }
    }

    /// The digest of a control plane's admin.conf; none if it has none.
    fn admin(&self, node: &PlannedHost<'_>) -> Option<Digest> {
        let mut certificates = self.running.certificates.iter();
        certificates.find(|one| one.host == node.name() && one.path == ADMIN_CONF)?.file
    }

    /// How a control plane asks an etcd that is not kubeadm's; none where it is.
    pub(super) fn etcd(&self) -> Option<Probe> {
        let access = self.running.kubeadm.as_ref()?.external_etcd.as_ref()?;
        Some(Probe::EtcdMembersHealthy {
            members: access.endpoints.iter().map(|url| (url.clone(), url.clone())).collect(),
            unnamed: true,
            ca: access.ca.clone(),
            certificate: access.certificate.clone(),
            key: access.key.clone(),
        })
    }

    /// The new kubelet, started by the node's own unit.
    pub(super) fn kubelet(&self, cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
        let kubectl = by_hand::program(self.running, node.name(), "kubectl");
        let replaced = kubectl.is_some_and(|found| found.package.is_none() && found.path == paths::bin("kubectl"));
        kubernetes::kubelet_of_adopted(cx, node, replaced)
    }
}

/// One host makes no cluster of kubexm's own an adopted one.
fn adopted_by_no_control_plane(cx: &PlanContext<'_>, site: &ClusterHosts<'_>) -> Result<(), RecipeError> {
    let is_adopted = |node: &&PlannedHost<'_>| node.facts.stamp.as_ref().is_some_and(|stamp| stamp.adopted);
    let name = |node: &PlannedHost<'_>| node.name().to_owned();
    let adopted: Vec<String> = site.nodes.iter().filter(is_adopted).map(name).collect();
    if adopted.is_empty() {
        return Ok(());
    }
    let made = std::iter::once(&site.first).chain(&site.others).map(name).collect();
    Err(RecipeError::MarksDiffer { cluster: cx.cluster.name.clone(), adopted, made })
}

const REWRITTEN: &str = "kubeadm writes its static pods and kubelet's configuration anew, from what the cluster has in the ConfigMaps \
                         kubeadm-config and kubelet-config: what was changed in these files alone, by hand or with `--patches`, is not \
                         kept (it leaves copies below /etc/kubernetes/tmp)";

/// What kubeadm makes anew in kube-system.
fn addons(kube_proxy: bool) -> String {
    let (what, kinds) = match kube_proxy {
        true => ("the DaemonSet kube-proxy and the Deployment coredns", "ds/kube-proxy deploy/coredns"),
        false => ("the Deployment coredns", "deploy/coredns"),
    };
    format!(
        "kubeadm writes {what} in kube-system anew, too: what was changed there by hand (resources, tolerations, affinity, images) is lost, and \
         CoreDNS' Corefile is kept or migrated; keep a copy first: `kubectl -n kube-system get {kinds} -o yaml`"
    )
}

/// kubeadm writes the recorded files of etcd into the manifest of every API server, also where that names others now.
fn etcd_files(node: &PlannedHost<'_>, probe: Probe) -> Step {
    Step::on(node.name(), "upgrade.etcd-files", "Ask etcd with the files that kubeadm has recorded")
        .probe(probe, 60)
        .timeout_s(80)
        .undo(Undo::Nothing)
        .build()
}

/// The node's record of its bundle; it stays that of an adopted cluster.
pub(super) fn stamp(cx: &PlanContext<'_>, node: &PlannedHost<'_>, adopted: bool) -> Step {
    let stamp = kubexm_plan::op::Stamp { adopted, ..os::stamp_of(cx) };
    Step::on(node.name(), "upgrade.stamp", "Record on the node which bundle it has")
        .ensure(stamp)
        .undo(Undo::RestoreBefore)
        .build()
}

/// Lets the hosts know that it is of their cluster.
pub(super) fn name_cluster(plan: &mut Plan, adopted: Option<&AdoptedCluster<'_>>) {
    let Some(adopted) = adopted else { return };
    for step in plan.steps.iter_mut().filter(|step| step.host != CONTROLLER) {
        step.of_adopted = Some(adopted.id);
    }
}
