//! The turn of one node: what runs there is replaced, in the order that upstream documents ("Upgrading kubeadm
//! clusters"): kubeadm, what kubeadm has made, then drained the runtime and the kubelet.

use std::collections::BTreeMap;

use kubexm_plan::op::{DrainedFor, NodeUncordon, Probe};
use kubexm_plan::{Step, StepId, Undo};

use super::adopted::{self, AdoptedCluster};
use super::found::{Found, FoundNode, cordoned_by};
use super::options::UpgradeOptions;
use super::os_packages::{self, OsPackages};
use crate::balancer::{self, kube_vip};
use crate::context::{PlanContext, PlannedHost};
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::modules::kubeadm_upgrade::{self, Configuration};
use crate::modules::{audit, control_plane, drain, etcd_client, kubeconfig, kubernetes, packages};
use crate::phases::ClusterHosts;
use crate::runtime;

/// After what a node is asked whether it is whole: its new version.
const UPGRADED: &str = "upgrade";
/// Its new packages.
const PACKAGED: &str = "packages";

/// The turn of a worker.
#[derive(Debug)]
pub(super) struct WorkersTurn {
    pub chain: Chain,
    /// What follows when it has ended.
    pub uncordon: Option<Step>,
    /// It has no way back already when it ends.
    pub one_way: bool,
}

/// The turns of all nodes. A node on which nothing differs has none.
#[derive(Debug)]
pub(super) struct Turns<'f, 'a> {
    first: PlannedHost<'a>,
    nodes: Vec<PlannedHost<'a>>,
    found: &'f Found<'f>,
    packages: &'f OsPackages<'a>,
    /// The cluster, if it was adopted.
    pub adopted: Option<&'f AdoptedCluster<'f>>,
    pub options: &'f UpgradeOptions,
    /// What kubeadm's configuration of a cluster that was not adopted is afterwards.
    configuration: Configuration,
    /// By host, the steps after which it has the content.
    staged: BTreeMap<&'a str, Vec<StepId>>,
    /// The last step of each turn.
    last: BTreeMap<&'a str, StepId>,
    /// Steps on the controller that bring the operator's own files.
    pub operators: Vec<StepId>,
    /// What the last control plane is asked while workers have their turns.
    aside: Option<Chain>,
    /// The last of those steps.
    pub asked: Vec<StepId>,
}

impl<'f, 'a> Turns<'f, 'a> {
    pub(super) fn new(
        site: &ClusterHosts<'a>,
        (found, packages): (&'f Found<'f>, &'f OsPackages<'a>),
        adopted: Option<&'f AdoptedCluster<'f>>,
        staged: BTreeMap<&'a str, Vec<StepId>>,
        (options, configuration): (&'f UpgradeOptions, Configuration),
    ) -> Self {
        Self {
            first: site.first,
            nodes: site.nodes.clone(),
            found,
            packages,
            adopted,
            options,
            configuration,
            staged,
            last: BTreeMap::new(),
            operators: Vec::new(),
            aside: None,
            asked: Vec::new(),
        }
    }

    /// Whether no control plane comes after this one. kubeadm has seen its static pods run with the new version; kubelet, which was started
    /// anew since, takes ten seconds until it says so of them again. What waits for that is the next control plane, and the end of the run.
    fn is_last_plane(&self, node: &PlannedHost<'_>) -> bool {
        let is_other = |other: &&PlannedHost<'_>| other.roles.control_plane && other.name() != self.first.name();
        self.nodes.iter().rfind(is_other).unwrap_or(&self.first).name() == node.name()
    }

    /// The last step of a node's turn.
    pub(super) fn last(&self, node: &PlannedHost<'_>) -> Option<&StepId> {
        self.last.get(node.name())
    }

    /// Whether something is to be done on a node.
    pub(super) fn has_turn(&self, cx: &PlanContext<'_>, node: &PlannedHost<'a>) -> bool {
        self.found.node(node.name()).is_some_and(FoundNode::differs) || self.left_cordoned(cx, node).is_some()
    }

    /// A node that an earlier upgrade has cordoned, and that has no turn any more.
    fn left_cordoned(&self, cx: &PlanContext<'_>, node: &PlannedHost<'a>) -> Option<Step> {
        let found = self.found.node(node.name())?;
        let ours = found.facts.unschedulable && found.cordoned_by(&cordoned_by(cx));
        ours.then(|| uncordon(cx, self.first.name(), node))
    }

    /// The steps after which a node has the content.
    pub(super) fn staged(&self, node: &PlannedHost<'_>) -> &[StepId] {
        self.staged.get(node.name()).map(Vec::as_slice).unwrap_or_default()
    }

    /// Adds the turn of a control plane; returns the steps that the next one waits for.
    pub(super) fn control_plane(
        &mut self,
        draft: &mut Draft<'a>,
        node: &PlannedHost<'a>,
        after: &[StepId],
    ) -> Result<Vec<StepId>, RecipeError> {
        let Some(found) = self.found.node(node.name()).filter(|found| found.differs()) else {
            let Some(uncordon) = self.left_cordoned(draft.cx, node) else { return Ok(after.to_vec()) };
            let mut chain = Chain::after(after.iter().cloned());
            // An interrupted run may not have asked it.
            chain.then([ready(self.first.name(), node.name(), UPGRADED, &self.found.target.to_string())]);
            chain.then(healthy(draft.cx, node, UPGRADED, self.adopted)?);
            chain.then([uncordon]);
            return Ok(draft.add(chain));
        };
        let (mut chain, mut operator) = (Chain::after(after.iter().cloned()), Chain::default());
        if let Some(adopted) = self.adopted.filter(|_| found.other_kubernetes) {
            let (steps, of_operator) = adopted.kubeadm(draft, &self.first, node)?;
            chain.then(steps);
            operator.then(of_operator);
        } else if found.other_kubernetes {
            if node.name() == self.first.name() {
                chain.then([kubeadm_upgrade::preflight(draft, node, self.configuration)?]);
                if let Some(settings) = &self.found.settings {
                    chain.then([settings.begun(draft, node)?]);
                }
            }
            chain.then(audit::step(draft, node)?);
            let upgraded = kubeadm_upgrade::step(draft, &self.first, node, self.configuration)?;
            if node.name() == self.first.name() {
                // kubeadm renews the certificates.
                operator.then([kubeconfig::of_operator(draft, node, &upgraded.id)]);
                chain.then([upgraded, control_plane::configure_upgraded(draft, node)?]);
            } else {
                chain.then([upgraded]);
            }
            chain.then(audit::loaded(draft.cx, node)?);
            chain.then([kubeconfig::step(node)]);
        }
        let uncordon = self.rest(draft, node, found, &mut chain)?;
        chain.then(uncordon);
        let last = draft.add(chain);
        if let Some(aside) = self.aside.take() {
            self.asked = draft.add(aside);
        }
        self.operators.extend(draft.add(operator));
        Ok(last)
    }

    /// The turn of a worker, which starts after these steps; none if nothing differs there.
    pub(super) fn worker(
        &mut self,
        draft: &mut Draft<'a>,
        node: &PlannedHost<'a>,
        after: &[StepId],
    ) -> Result<Option<WorkersTurn>, RecipeError> {
        let mut chain = Chain::after(after.iter().cloned());
        let Some(found) = self.found.node(node.name()).filter(|found| found.differs()) else {
            let uncordon = self.left_cordoned(draft.cx, node);
            // An interrupted run may not have asked it.
            chain.then([ready(self.first.name(), node.name(), UPGRADED, &self.found.target.to_string())]);
            return Ok(uncordon.map(|step| WorkersTurn { chain, uncordon: Some(of_node(step, node)), one_way: true }));
        };
        // The control planes have not waited for its success.
        chain.wait(self.staged(node));
        if let Some(adopted) = self.adopted.filter(|_| found.other_kubernetes) {
            chain.then(adopted.kubeadm(draft, &self.first, node)?.0);
        } else if found.other_kubernetes {
            chain.then([kubeadm_upgrade::step(draft, &self.first, node, self.configuration)?]);
        }
        let uncordon = self.rest(draft, node, found, &mut chain)?;
        let one_way = found.older_packages;
        // Pods come back only where all of it has succeeded.
        let uncordon = uncordon.map(|step| if one_way { of_node(step, node) } else { step });
        Ok(Some(WorkersTurn { chain, uncordon, one_way }))
    }

    /// What every node has: the runtime and the kubelet, while no pods run there if a minor version changes. Returns the
    /// step that lets pods come back.
    fn rest(
        &mut self,
        draft: &mut Draft<'a>,
        node: &PlannedHost<'a>,
        found: &FoundNode<'_>,
        chain: &mut Chain,
    ) -> Result<Option<Step>, RecipeError> {
        let name = node.name();
        let on = self.first.name();
        let version = self.found.target.to_string();
        let drains = found.drains(self.options);
        let mark = self.packages.mark(name);
        if drains {
            let id = format!("upgrade.drain-{name}");
            let by = Some(cordoned_by(draft.cx));
            let unless = DrainedFor { kubelet: Some(&version), packages: mark.as_deref() };
            chain.then([drain::step(on, &id, name, self.options.drain, unless, by)]);
        }
        let kubelet = match self.adopted {
            Some(adopted) => adopted.kubelet(draft.cx, node)?,
            None => self.programs(draft, node, chain)?,
        };
        let stamp = adopted::stamp(draft.cx, node, self.adopted.is_some());
        self.last.insert(&node.host.name, stamp.id.clone());
        chain.then([kubelet, ready(on, name, UPGRADED, &version)]);
        if node.roles.control_plane {
            let asked = healthy(draft.cx, node, UPGRADED, self.adopted)?;
            if self.is_last_plane(node) && self.adopted.is_none() && self.packages.of_node(name).is_none() {
                let mut aside = chain.fork();
                aside.then(asked);
                self.aside = Some(aside);
            } else {
                chain.then(asked);
            }
            if self.adopted.is_none() {
                // kubeadm has given it another certificate, and the bundle perhaps another version.
                chain.then(kube_vip::steps(draft, node)?);
            }
        }
        if let (Some(older), Some(mark)) = (self.packages.of_node(name), mark) {
            chain.then(packages::upgrade(node, older));
            // Their scripts may have changed what kubelet and the runtime need.
            chain.then([ready(on, name, PACKAGED, &version)]);
            if node.roles.control_plane {
                chain.then(healthy(draft.cx, node, PACKAGED, self.adopted)?);
            }
            chain.then([os_packages::marked(on, name, mark)]);
        }
        if let Some(wanted) = self.found.settings.as_ref().filter(|wanted| wanted.is_of(node)) {
            chain.then([wanted.had_by(on, node)]);
        }
        chain.then([stamp]);
        // One that somebody else has cordoned stays so.
        let was = found.facts.unschedulable;
        let uncordons = if was { found.cordoned_by(&cordoned_by(draft.cx)) } else { drains };
        Ok(uncordons.then(|| uncordon(draft.cx, on, node)))
    }

    /// The runtime and the tools of a node of kubexm's; returns the step of its kubelet.
    fn programs(&self, draft: &mut Draft<'a>, node: &PlannedHost<'a>, chain: &mut Chain) -> Result<Step, RecipeError> {
        let runtime = runtime::steps(draft, node)?;
        chain.then([runtime.programs, runtime.run]);
        chain.then(kubernetes::tools(draft, node)?);
        chain.then(kubernetes::helm(draft, node)?);
        // Its image is the bundle's, which may be another one; without it clients go to the control planes themselves.
        chain.then(balancer::step(draft, &self.nodes, node)?);
        kubernetes::kubelet_upgraded(draft, node)
    }
}

/// The step fails with its node, also where the run may go on without that.
fn of_node(step: Step, node: &PlannedHost<'_>) -> Step {
    Step { domain: Some(node.name().to_owned()), ..step }
}

/// Before the next control plane is stopped, this one is whole again: its static pods, and etcd with all of its members. Asked
/// on the node itself, of its own etcd.
fn healthy(
    cx: &PlanContext<'_>,
    node: &PlannedHost<'_>,
    after: &str,
    adopted: Option<&AdoptedCluster<'_>>,
) -> Result<[Step; 2], RecipeError> {
    let name = node.name();
    let images = kubeadm_upgrade::images(cx, node)?;
    let images = images.into_iter().map(|(pod, image)| (pod.to_owned(), image.to_owned())).collect();
    let asked = match adopted {
        Some(adopted) => adopted.etcd(),
        None => etcd_client::all_healthy(cx)?,
    };
    let (external_etcd, of_etcd) = match asked {
        Some(asked) => (true, asked),
        None => (false, Probe::EtcdHealthy { members: cx.cluster.role_groups.control_plane.len() }),
    };
    Ok([
        Step::on(
            name,
            &format!("{after}.static-pods"),
            "Wait until the static pods are Ready with the images of the bundle",
        )
        .probe(Probe::StaticPodsReady { node: name.to_owned(), images, external_etcd }, 300)
        .timeout_s(320)
        .undo(Undo::Nothing)
        .build(),
        Step::on(name, &format!("{after}.etcd"), "Wait until every member of etcd is healthy")
            .probe(of_etcd, 120)
            .timeout_s(140)
            .undo(Undo::Nothing)
            .build(),
    ])
}

fn ready(on: &str, node: &str, after: &str, version: &str) -> Step {
    Step::on(on, &format!("{after}.ready-{node}"), &format!("Wait until node {node} is Ready with kubelet {version}"))
        .domain(node)
        .probe(Probe::NodeReady { node: node.to_owned(), kubelet: Some(version.to_owned()) }, 300)
        .timeout_s(320)
        .undo(Undo::Nothing)
        .build()
}

const IN_USE: &str = "pods run on the node with the new version; it keeps that, whatever fails later";

/// A kubelet of an earlier minor version must not come back under pods of the new one, so this ends the way back of the
/// node. It is of the cluster and not of an optional node: such a node can be rolled back alone until it has ended.
fn uncordon(cx: &PlanContext<'_>, on: &str, node: &PlannedHost<'_>) -> Step {
    let name = node.name();
    let step = Step::on(on, &format!("upgrade.uncordon-{name}"), &format!("Let pods be scheduled on {name} again"));
    let step = if node.optional() { step } else { step.domain(name) };
    step.ensure(NodeUncordon { node: name.to_owned(), cordoned_by: Some(cordoned_by(cx)) })
        .retries(3)
        .undo(Undo::Irreversible { why: IN_USE.to_owned() })
        .build()
}
