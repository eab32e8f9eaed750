//! Puts the bundle's content on every host, in parallel: blobs, packages, the registry's content, images in the runtime.
//! Nothing that runs is replaced: a kubelet that crashes meanwhile comes back as it was.

use std::collections::BTreeMap;

use kubexm_plan::op::{EtcdSnapshot, Probe};
use kubexm_plan::{Step, StepId, Undo};

use super::adopted::AdoptedCluster;
use super::found::Found;
use super::options::UpgradeOptions;
use super::os_packages::OsPackages;
use crate::context::PlannedHost;
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::modules::{dns, images, kubeadm_upgrade, kubernetes, packages, volumes};
use crate::phases::{ClusterHosts, Serves};
use crate::runtime::{self, RuntimeSteps};

/// Hosts that have the content.
#[derive(Debug, Default)]
pub(super) struct Staged<'a> {
    /// What the first control plane waits for: the last is a snapshot of etcd, where that is needed.
    pub all: Vec<StepId>,
    /// By host, the last steps there.
    pub hosts: BTreeMap<&'a str, Vec<StepId>>,
}

pub(super) fn run<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    (adopted, options): (Option<&AdoptedCluster<'_>>, &UpgradeOptions),
    (found, os_packages): (&Found<'_>, &OsPackages<'_>),
    wanted: Option<EtcdSnapshot>,
) -> Result<Staged<'a>, RecipeError> {
    let mut hosts = BTreeMap::new();
    let (mut required, mut optional) = (Vec::new(), Vec::new());
    let mut serves = Serves::default();
    for node in site.in_order() {
        let kubeadm = match found.node(node.name()).filter(|found| found.other_kubernetes) {
            Some(_) => kubeadm(draft, &site.first, node, adopted.is_some())?,
            None => Vec::new(),
        };
        let chain = match adopted {
            Some(adopted) => adopted.stage(draft, &site.first, node, kubeadm)?,
            None => host(draft, node, (options, os_packages), &mut serves, kubeadm)?,
        };
        let staged = draft.add(chain);
        if node.optional() {
            optional.extend(staged.clone())
        } else {
            required.extend(staged.clone())
        }
        hosts.insert(node.host.name.as_str(), staged);
    }
    let mut ready = ready(&site.first);
    ready.after_end = optional;
    let mut chain = Chain::after(required);
    chain.then([ready]);
    chain.then(wanted.map(|snapshot| snapshot_of(&site.first, snapshot)));
    Ok(Staged { all: draft.add(chain), hosts })
}

/// The way back once a control plane is upgraded.
fn snapshot_of(first: &PlannedHost<'_>, snapshot: EtcdSnapshot) -> Step {
    Step::on(first.name(), "upgrade.snapshot", "Take a snapshot of etcd, and verify it")
        .ensure(snapshot)
        .timeout_s(2_400)
        .undo(Undo::RestoreBefore)
        .build()
}

/// The new kubeadm, with what it reads: nothing that runs is changed by that, and it is not in the way of the nodes' turns.
fn kubeadm(
    draft: &mut Draft<'_>,
    first: &PlannedHost<'_>,
    node: &PlannedHost<'_>,
    adopted: bool,
) -> Result<Vec<Step>, RecipeError> {
    let mut steps = vec![kubernetes::kubeadm(draft.cx, node)?];
    if !adopted {
        steps.extend(kubeadm_upgrade::configure(draft, first, node)?);
        // kubelet starts no pod where its new configuration names a file that is not there.
        steps.extend(dns::resolv_conf(draft, node)?);
    }
    Ok(steps)
}

fn host<'a>(
    draft: &mut Draft<'a>,
    node: &PlannedHost<'a>,
    (options, os_packages): (&UpgradeOptions, &OsPackages<'_>),
    serves: &mut Serves,
    kubeadm: Vec<Step>,
) -> Result<Chain, RecipeError> {
    let to_install = packages::of_node(draft.cx, node)?;
    let older = os_packages.of_node(node.name());
    let mut chain = Chain::default();
    let all: Vec<_> = to_install.as_ref().into_iter().chain(older).collect();
    serves.store(draft, node, &all, &mut chain)?;
    let mut beside = chain.fork();
    beside.then(kubeadm);
    serves.services(draft, node, &mut chain)?;
    match (&to_install, older) {
        (Some(to_install), _) => chain.then(packages::steps(draft, node, to_install)),
        // They come in the node's turn.
        (None, Some(older)) => chain.then([packages::repository(draft, node, older)]),
        (None, None) => {}
    }
    if node.in_cluster() {
        if !options.keep_addons {
            chain.then(volumes::folder(draft.cx, node));
        }
        let RuntimeSteps { mirrors, reload, .. } = runtime::steps(draft, node)?;
        chain.then([mirrors]);
        chain.then(reload);
        chain.wait(&serves.images);
        chain.together(images::steps(draft.cx, node)?);
    }
    chain.merge(beside);
    Ok(chain)
}

/// The last moment at which nothing of what runs has changed.
fn ready(first: &PlannedHost<'_>) -> Step {
    let name = first.name();
    Step::on(name, "upgrade.staged", "Wait until every host has the content, and the first control plane is Ready")
        .probe(Probe::NodeReady { node: name.to_owned(), kubelet: None }, 60)
        .timeout_s(80)
        .undo(Undo::Nothing)
        .build()
}
