//! Add-ons that the record of what was applied has, and cluster.yaml has no more: they are removed, the last one first, before the
//! others are installed. So is the last Secret of an add-on that stays.

use kubexm_plan::addons::of_secrets;
use kubexm_plan::cluster_facts::AppliedCluster;
use kubexm_plan::op::{Manifests, NOTHING, Op, ReleaseAbsent};
use kubexm_plan::{Step, Undo};
use kubexm_spec::cluster::{AddonKind, Cluster, Keyword as _};
use serde::Deserialize;

use crate::draft::{Chain, Draft};
use crate::modules::{addon_secrets, release};

/// An add-on, by what identifies it, as the record has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RecordedAddon {
    /// Its name.
    pub name: String,
    /// `helm`, `yaml`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Namespace of its objects that name none.
    #[serde(default = "of_default")]
    pub namespace: String,
    #[serde(default)]
    secrets: Vec<serde_json::Value>,
}

fn of_default() -> String {
    "default".to_owned()
}

/// What is removed of a recorded add-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedAddon {
    /// As it was recorded.
    pub addon: RecordedAddon,
    /// Its release, or its objects. Otherwise it stays.
    pub whole: bool,
    /// Its Secrets.
    pub secrets: bool,
    /// Whether cluster.yaml has another one of its name, which takes its place.
    pub replaced: bool,
}

/// The add-ons of a record, in their order; a record that cannot be read has none.
pub fn recorded(applied: Option<&AppliedCluster>) -> Vec<RecordedAddon> {
    let all = applied.and_then(|applied| applied.cluster.pointer("/spec/addons")?.as_array());
    all.into_iter().flatten().filter_map(|addon| RecordedAddon::deserialize(addon).ok()).collect()
}

/// What is removed, the last add-on first, since it may need those before it.
pub fn of(cluster: &Cluster, applied: Option<&AppliedCluster>) -> Vec<RemovedAddon> {
    let mut removed: Vec<RemovedAddon> =
        recorded(applied).into_iter().filter_map(|addon| removal(cluster, addon)).collect();
    removed.reverse();
    removed
}

fn removal(cluster: &Cluster, addon: RecordedAddon) -> Option<RemovedAddon> {
    let now = cluster.addons.iter().find(|now| now.name == addon.name);
    let stays = now.is_some_and(|now| {
        // A release belongs to its namespace; what objects leave another namespace, their own step removes.
        now.kind.word() == addon.kind && (now.kind == AddonKind::Yaml || now.namespace == addon.namespace)
    });
    let secrets = !addon.secrets.is_empty() && now.is_none_or(|now| now.secrets.is_empty());
    (!stays || secrets).then_some(RemovedAddon { replaced: now.is_some(), addon, whole: !stays, secrets })
}

impl RemovedAddon {
    /// What the operator reads before it happens.
    pub fn warning(&self) -> String {
        let RecordedAddon { name, namespace, .. } = &self.addon;
        match self.whole {
            true if self.replaced => format!(
                "add-on {name} in namespace {namespace} is another one in cluster.yaml now (its type or namespace): it is removed first; its \
                 volumes and claims, definitions of which there are objects, and its namespace stay"
            ),
            true => format!(
                "add-on {name} in namespace {namespace} is not in cluster.yaml any more, and is removed; its volumes and claims, definitions \
                 of which there are objects, and its namespace stay"
            ),
            false => format!(
                "add-on {name} has no secrets in cluster.yaml any more: those in namespace {namespace} are removed"
            ),
        }
    }

    fn steps(&self, draft: &mut Draft<'_>, first: &str) -> Vec<Step> {
        let RecordedAddon { name, namespace, kind, .. } = &self.addon;
        let mut steps = Vec::new();
        if self.whole && kind == AddonKind::Helm.word() {
            let op = ReleaseAbsent { name: name.clone(), namespace: namespace.clone(), wait_s: release::WAIT };
            steps.push(removing(first, name, &format!("Uninstall {name} with helm"), op.into()));
        } else if self.whole {
            draft.text(NOTHING);
            let op = Manifests::none(name.clone(), namespace.clone(), release::WAIT);
            steps.push(removing(first, name, &format!("Remove the objects of {name}"), op.into()));
        }
        if self.secrets {
            draft.text(NOTHING);
            let of_secrets = of_secrets(name);
            let op = Manifests::none(of_secrets.clone(), namespace.clone(), addon_secrets::WAIT);
            steps.push(removing(first, &of_secrets, &format!("Remove the Secrets of {name}"), op.into()));
        }
        steps
    }

    fn goes_first(&self) -> bool {
        self.whole && (self.replaced || self.needs_helm())
    }

    /// Whether a release is uninstalled.
    pub fn needs_helm(&self) -> bool {
        self.whole && self.addon.kind == AddonKind::Helm.word()
    }
}

fn removing(first: &str, name: &str, title: &str, op: Op) -> Step {
    Step::on(first, &format!("addons.{name}.removed"), title)
        .timeout_s(release::TIMEOUT)
        .ensure(op)
        .undo(Undo::RestoreBefore)
        .build()
}

/// Adds the removal of releases to the chain, whose objects helm lets nobody else have, and of what is replaced.
pub fn before(draft: &mut Draft<'_>, first: &str, removed: &[RemovedAddon], chain: &mut Chain) {
    for addon in removed.iter().filter(|addon| addon.goes_first()) {
        chain.then(addon.steps(draft, first));
    }
}

/// Adds the removal of objects of YAML, which another add-on may have taken over by then, and of Secrets that the add-ons of now do without.
pub fn after(draft: &mut Draft<'_>, first: &str, removed: &[RemovedAddon], chain: &mut Chain) {
    for addon in removed.iter().filter(|addon| !addon.goes_first()) {
        chain.then(addon.steps(draft, first));
    }
}
