//! `upgrade`: brings a running cluster to the Kubernetes version of the bundle, node by node.
//!
//! Everything that can fail without a way back being lost comes first: the content is staged on all hosts, and nothing
//! of what runs is changed by that. Then the members of an etcd of kubexm's own, one at a time, the
//! first control plane, the others one at a time, the pod network, and the workers in batches. kubeadm has no way back
//! once a control plane has been upgraded; a worker can be rolled back until it has been used with the new version. The add-ons come last.

mod addons;
mod adopted;
mod by_hand;
mod check;
mod found;
mod members;
mod options;
mod os_packages;
mod stage;
mod turn;
mod workers;

use std::collections::BTreeMap;

use kubexm_plan::op::EtcdSnapshot;
use kubexm_plan::{Pipeline, Plan, StepId, Undo};
use kubexm_spec::Program;
use kubexm_spec::cluster::{EtcdKind, RegistryKind};

use crate::balancer;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::modules::kubeadm_upgrade::Configuration;
use crate::modules::{check as final_check, record};
use crate::phases::ClusterHosts;
use crate::{bundle, network, unsupported};
use addons::{Addons, Before};
use adopted::AdoptedCluster;
use found::Found;
use members::OwnMembers;
pub use options::{PauseAfter, UpgradeOptions};
use os_packages::OsPackages;
use stage::Staged;
use turn::Turns;

/// A plan, and what the operator should know about it.
#[derive(Clone, Debug)]
pub struct Upgrade {
    pub plan: Plan,
    /// One sentence each.
    pub warnings: Vec<String>,
}

/// The plan that upgrades a cluster. Where the cluster has the bundle's version already, every step finds what it wants.
pub fn upgrade(
    cx: &PlanContext<'_>,
    running: &kubexm_plan::ClusterFacts,
    options: &UpgradeOptions,
) -> Result<Upgrade, RecipeError> {
    unsupported::refuse(cx.cluster)?;
    let site = ClusterHosts::of(cx)?;
    let adopted = AdoptedCluster::of(cx, &site, running)?;
    let adopted = adopted.as_ref();
    bundle::check(cx)?;
    let packages = OsPackages::of(cx, &site, (adopted.is_some(), options))?;
    let found = Found::of(cx, &site, running, (adopted.is_some(), &packages), options.now)?;
    let members = OwnMembers::of(cx, &site, running)?;
    let mut warnings = check::run(cx, &site, running, (&found, members.as_ref()), options)?;
    let snapshot = snapshot(&site, &found, members.as_ref(), options);
    if cx.cluster.etcd.kind == EtcdKind::External {
        warnings.extend(snapshot.as_ref().map(|_| way_back_of_theirs(&site)));
    } else {
        warnings
            .extend(snapshot.as_ref().map(|snapshot| way_back(&site, members.as_ref(), adopted.is_some(), snapshot)));
    }
    // An etcd of the user's has keys of others, too, and its own backups.
    let snapshot = snapshot.filter(|_| cx.cluster.etcd.kind != EtcdKind::External);
    warnings.extend(found.settings.as_ref().map(|_| SETTINGS.to_owned()));
    warnings.extend(adopted.map(|adopted| adopted.warnings(cx, &site, &found)).unwrap_or_default());
    // Nothing of cluster.yaml is applied to an adopted cluster.
    let addons = if adopted.is_none() { Some(Addons::of(cx.cluster, running, options)?) } else { None };
    let addons = addons.filter(|_| options.pause_after.is_none());
    warnings.extend(addons.iter().flat_map(Addons::warnings));
    warnings.extend(harbor(cx, &site));
    warnings.extend(packages.warnings.iter().cloned());
    let mut draft = Draft::new(cx, Pipeline::Upgrade, &site.nodes);
    let Staged { all: mut done, hosts } =
        stage::run(&mut draft, &site, (adopted, options), (&found, &packages), snapshot)?;
    if let Some(members) = &members {
        done = members::run(&mut draft, &site, &found, members, &done)?;
    }
    let settings = found.settings.as_ref().map(|settings| settings.digest);
    let keep_etcd = found.settings.as_ref().is_none_or(|settings| settings.keep_etcd);
    let same_etcd = keep_etcd && record::has_same_etcd(running.applied.as_ref(), cx.cluster);
    let configuration = Configuration::Ours { same_etcd, settings };
    let mut turns = Turns::new(&site, (&found, &packages), adopted, hosts, (options, configuration));
    for node in std::iter::once(&site.first).chain(&site.others) {
        done = turns.control_plane(&mut draft, node, &done)?;
        if options.pause_after == Some(PauseAfter::FirstControlPlane) {
            break;
        }
    }
    if options.pause_after != Some(PauseAfter::FirstControlPlane) {
        finish(&mut draft, &site, &mut turns, (addons.as_ref(), &done))?;
    }
    let mut plan = draft.finish().plan;
    if options.keep_addons {
        record::keep_or_drop_addons(&mut plan, running.applied.as_ref())?;
    }
    adopted::name_cluster(&mut plan, adopted);
    Ok(Upgrade { plan, warnings })
}

/// What follows from other settings.
const SETTINGS: &str = "nodes get other settings (preflight names them): kubeadm renews the certificates of every control plane for that, and its API \
                        server is started anew, one after the other; to undo it, revert the settings in cluster.yaml and upgrade again";

/// How long the run can be rolled back, and what there is afterwards.
fn way_back(
    site: &ClusterHosts<'_>,
    members: Option<&OwnMembers<'_>>,
    adopted: bool,
    snapshot: &EtcdSnapshot,
) -> String {
    let first = site.first.name();
    let until = match members.and_then(|members| Some((&members.target, members.one_way.as_ref()?))) {
        Some((target, last)) => format!("the last member of etcd, that of {last}, is replaced by etcd {target}"),
        None => format!("kubeadm begins to upgrade {first}"),
    };
    format!(
        "a run that fails is rolled back until {until}; from then on no version goes back. The data of before is in the snapshot of \
         etcd that is taken on {first} first, {}; make a backup of your own before, with `kubexm-install backup`{}",
        snapshot.path(),
        // What others have made is not restored.
        if adopted { "" } else { ", which `restore` reads" }
    )
}

/// The same with an etcd of the user's, of which kubexm takes no snapshot.
fn way_back_of_theirs(site: &ClusterHosts<'_>) -> String {
    format!(
        "a run that fails is rolled back until kubeadm begins to upgrade {}; from then on no version goes back. Of an etcd of yours no \
         snapshot is taken: take one before, with `etcdctl snapshot save` or `kubexm-install backup`",
        site.first.name()
    )
}

/// What no rollback undoes of a registry whose content comes first.
fn harbor(cx: &PlanContext<'_>, site: &ClusterHosts<'_>) -> Option<String> {
    if cx.cluster.registry.kind != RegistryKind::Harbor {
        return None;
    }
    let version = &cx.program(Program::Harbor, site.first.platform).ok()?.version;
    Some(format!(
        "the bundle has Harbor {version}: if the cluster's is another one, it is replaced while content is staged, migrates its database when it \
         starts, and no rollback takes that back; keep a copy of {} then",
        cx.cluster.registry.data_dir
    ))
}

/// The snapshot that is taken before any member of etcd or control plane is upgraded. Each plan takes its own.
fn snapshot(
    site: &ClusterHosts<'_>,
    found: &Found<'_>,
    members: Option<&OwnMembers<'_>>,
    options: &UpgradeOptions,
) -> Option<EtcdSnapshot> {
    let planes = || std::iter::once(&site.first).chain(&site.others);
    let needed = planes().any(|plane| found.node(plane.name()).is_some_and(|node| node.other_kubernetes));
    let needed = needed || members.is_some_and(|members| members.stops);
    needed.then(|| EtcdSnapshot { name: format!("before-{}-{}", found.target, options.now) })
}

/// The proxies of workers on which nothing else differs: the bundle may have another version of them. Returns their last steps.
fn balance<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    turns: &Turns<'_, 'a>,
    after: &[StepId],
) -> Result<BTreeMap<&'a str, StepId>, RecipeError> {
    let mut balanced = BTreeMap::new();
    for node in site.workers().filter(|node| turns.last(node).is_none()) {
        let Some(step) = balancer::step(draft, &site.nodes, node)? else { continue };
        balanced.insert(node.host.name.as_str(), step.id.clone());
        let mut chain = Chain::after(turns.staged(node).iter().chain(after).cloned());
        chain.then([step]);
        draft.add(chain);
    }
    Ok(balanced)
}

/// What follows the control planes: the pod network, the workers, the check of the whole, and the add-ons.
fn finish<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    turns: &mut Turns<'_, 'a>,
    (addons, control_planes): (Option<&Addons<'_>>, &[StepId]),
) -> Result<(), RecipeError> {
    let pause = turns.options.pause_after;
    let adopted = turns.adopted.is_some();
    let mut chain = Chain::after(control_planes.iter().cloned());
    if !adopted {
        chain.then(network::steps(draft, &site.first, Undo::RestoreBefore)?);
        chain.then(network::multus::step(draft, &site.first, Undo::RestoreBefore)?);
        chain.then(network::nodelocaldns::step(draft, &site.first, Undo::RestoreBefore)?);
    }
    let networked = draft.add(chain);
    if pause == Some(PauseAfter::ControlPlanes) {
        return Ok(());
    }
    let mut after = workers::run(draft, site, turns, &networked)?;
    if pause == Some(PauseAfter::FirstBatch) {
        return Ok(());
    }
    after.extend(turns.asked.iter().cloned());
    let checked = if adopted {
        after.extend(networked);
        final_check::nodes(draft, site, &after, |node| turns.last(node))
    } else {
        let balanced = balance(draft, site, turns, &networked)?;
        after.extend(networked);
        final_check::run(draft, site, &after, |node| turns.last(node).or_else(|| balanced.get(node.name())))?
    };
    // Of an adopted cluster hosts that are no nodes are not kubexm's.
    let has_content = |node: &&PlannedHost<'a>| !adopted || node.in_cluster();
    let (mut beside, mut settled) = (turns.operators.clone(), Vec::new());
    for node in site.nodes.iter().filter(|node| turns.last(node).is_none()).filter(has_content) {
        // Nothing of it was upgraded, and it has the new bundle's content.
        let mut chain = Chain::after(checked.iter().cloned());
        chain.then([adopted::stamp(draft.cx, node, adopted)]);
        if node.optional() { &mut settled } else { &mut beside }.extend(draft.add(chain));
    }
    let Some(addons) = addons else { return Ok(()) };
    let upgrades = site.nodes.iter().any(|node| turns.last(node).is_some());
    let before = Before {
        checked: &checked,
        beside: &beside,
        settled: &settled,
        run: upgrades.then_some(turns.options.now),
        has_helm: turns.last(&site.first).is_some(),
    };
    addons.finish(draft, site, before)
}
