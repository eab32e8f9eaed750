//! Add-ons that the record of what was applied has, and cluster.yaml has no more: they are removed, the last one first, before the
//! others are installed. So is the last Secret of an add-on that stays.

use kubexm_manifests::chart_storage;
use kubexm_plan::addons::of_secrets;
use kubexm_plan::cluster_facts::AppliedCluster;
use kubexm_plan::op::{Manifests, NOTHING, Op, ReleaseAbsent};
use kubexm_plan::{Step, Undo};
use kubexm_spec::cluster::{AddonKind, Cluster, Keyword as _, Provisioner, is_label};
use kubexm_spec::counted;
use serde::Deserialize;

use crate::draft::{Chain, Draft};
use crate::modules::{addon_secrets, release, storage};
use crate::network::nodelocaldns;

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
    /// What of cluster.yaml it is of.
    #[serde(skip)]
    of: Of,
}

/// What brings an add-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Of {
    /// `spec.addons`.
    #[default]
    Addons,
    /// `spec.storage`.
    Storage(Provisioner),
    /// `spec.kubernetes.nodelocaldns`.
    DnsCache,
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

/// What the operator reads where there is no record.
pub const UNKNOWN: &str = "what was applied to the cluster last could not be read: add-ons that cluster.yaml no longer has stay, and are not known \
                           afterwards (`kubexm-install addons list` shows them)";
/// The most add-ons of a record that are looked at.
const MOST: usize = 1_000;
/// Removed ones that have a line of their own.
const NAMED: usize = 10;

/// The add-ons of a record, in their order, after what makes volumes; a record that cannot be read has none. It is read from a control plane:
/// what no cluster.yaml can have is not taken over.
pub fn recorded(applied: Option<&AppliedCluster>) -> Vec<RecordedAddon> {
    storage::recorded(applied).map(of_storage).chain(of_addons(applied)).collect()
}

fn of_addons(applied: Option<&AppliedCluster>) -> impl Iterator<Item = RecordedAddon> + '_ {
    all(applied).take(MOST).filter_map(read)
}

fn of_storage(provisioner: Provisioner) -> RecordedAddon {
    RecordedAddon {
        name: provisioner.release().to_owned(),
        kind: AddonKind::Helm.word().to_owned(),
        namespace: provisioner.release().to_owned(),
        secrets: Vec::new(),
        of: Of::Storage(provisioner),
    }
}

/// The DNS cache of the nodes, if cluster.yaml has none any more.
fn dns_cache(cluster: &Cluster, applied: Option<&AppliedCluster>) -> Option<RemovedAddon> {
    let addon = RecordedAddon {
        name: nodelocaldns::RECORD.to_owned(),
        kind: AddonKind::Yaml.word().to_owned(),
        namespace: nodelocaldns::NAMESPACE.to_owned(),
        secrets: Vec::new(),
        of: Of::DnsCache,
    };
    let removed = RemovedAddon { addon, whole: true, secrets: false, replaced: false };
    nodelocaldns::is_removed(cluster, applied).then_some(removed)
}

fn all(applied: Option<&AppliedCluster>) -> impl Iterator<Item = &serde_json::Value> {
    applied.and_then(|applied| applied.cluster.pointer("/spec/addons")?.as_array()).into_iter().flatten()
}

fn read(addon: &serde_json::Value) -> Option<RecordedAddon> {
    let addon = RecordedAddon::deserialize(addon).ok()?;
    let is_kind = AddonKind::ALL.iter().any(|kind| kind.word() == addon.kind);
    (is_kind && is_label(&addon.name) && is_label(&addon.namespace)).then_some(addon)
}

/// What the operator reads before they are removed: a line for each of the first, and one for all others, so that no record pushes the
/// question out of sight.
pub fn warnings(removed: &[RemovedAddon], applied: Option<&AppliedCluster>) -> Vec<String> {
    let mut lines: Vec<String> = removed.iter().take(NAMED).map(RemovedAddon::warning).collect();
    let more: Vec<&str> = removed.iter().skip(NAMED).map(|removed| removed.addon.name.as_str()).collect();
    if !more.is_empty() {
        lines.push(format!("so are {} more: {}", more.len(), more.join(", ")));
    }
    let unreadable = all(applied).count() - of_addons(applied).count();
    if unreadable > 0 {
        lines.push(format!(
            "the record of what was applied to the cluster has {} that no cluster.yaml can have: nothing of them is removed",
            counted(unreadable as u64, "add-on")
        ));
    }
    lines
}

/// What is removed, the last add-on first, since it may need those before it.
pub fn of(cluster: &Cluster, applied: Option<&AppliedCluster>) -> Vec<RemovedAddon> {
    let mut removed: Vec<RemovedAddon> =
        recorded(applied).into_iter().filter_map(|addon| removal(cluster, addon)).collect();
    removed.reverse();
    removed
}

/// The same for `create`, which also removes what is no add-on.
pub fn of_create(cluster: &Cluster, applied: Option<&AppliedCluster>) -> Vec<RemovedAddon> {
    of(cluster, applied).into_iter().chain(dns_cache(cluster, applied)).collect()
}

fn removal(cluster: &Cluster, addon: RecordedAddon) -> Option<RemovedAddon> {
    let now = cluster.addons.iter().find(|now| now.name == addon.name);
    let of_storage = chart_storage::of_release(cluster, &addon.name);
    // A release belongs to its namespace; what objects leave another namespace, their own step removes.
    let is_same = |kind: AddonKind, namespace: &str| {
        kind.word() == addon.kind && (kind == AddonKind::Yaml || namespace == addon.namespace)
    };
    let stays = now.is_some_and(|now| is_same(now.kind, &now.namespace))
        || of_storage.is_some_and(|now| is_same(AddonKind::Helm, now.release()));
    let secrets = !addon.secrets.is_empty() && now.is_none_or(|now| now.secrets.is_empty());
    let replaced = now.is_some() || of_storage.is_some();
    (!stays || secrets).then_some(RemovedAddon { replaced, addon, whole: !stays, secrets })
}

impl RemovedAddon {
    fn warning(&self) -> String {
        let RecordedAddon { name, namespace, .. } = &self.addon;
        if self.addon.of == Of::DnsCache {
            return "spec.kubernetes.nodelocaldns is not in cluster.yaml any more: the DNS cache of every node is removed, and pods ask CoreDNS again"
                .to_owned();
        }
        if let Of::Storage(provisioner) = self.addon.of {
            let key = provisioner.key();
            let class = provisioner.class();
            let then =
                if self.replaced { "an add-on takes its place" } else { "new claims of it are not served any more" };
            return format!(
                "spec.storage.{key} is not in cluster.yaml any more: {name} in namespace {namespace} is removed with its class {class}, and {then}; \
                 volumes, claims and their data stay, and nothing deletes the data when a claim goes"
            );
        }
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
            let part = if matches!(self.addon.of, Of::Storage(_)) { "storage" } else { "addons" };
            steps.push(removing(first, (part, name), &format!("Uninstall {name} with helm"), op.into()));
        } else if self.whole {
            draft.text(NOTHING);
            let op = Manifests::none(name.clone(), namespace.clone(), release::WAIT);
            let (of, title) = match self.addon.of {
                Of::DnsCache => (("dns", "nodelocaldns"), "Remove the DNS cache of every node".to_owned()),
                Of::Addons | Of::Storage(_) => (("addons", name.as_str()), format!("Remove the objects of {name}")),
            };
            steps.push(removing(first, of, &title, op.into()));
        }
        if self.secrets {
            draft.text(NOTHING);
            let of_secrets = of_secrets(name);
            let op = Manifests::none(of_secrets.clone(), namespace.clone(), addon_secrets::WAIT);
            steps.push(removing(first, ("addons", &of_secrets), &format!("Remove the Secrets of {name}"), op.into()));
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

fn removing(first: &str, (part, name): (&str, &str), title: &str, op: Op) -> Step {
    Step::on(first, &format!("{part}.{name}.removed"), title)
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

#[cfg(test)]
mod tests {
    use kubexm_plan::BundleRecord;
    use kubexm_spec::Digest;
    use serde_json::{Value, json};

    use super::*;

    fn applied(addons: Value) -> AppliedCluster {
        AppliedCluster {
            schema: kubexm_plan::cluster_facts::applied::SCHEMA.to_owned(),
            name: "demo".to_owned(),
            id: None,
            kubernetes: "v1.34.4".to_owned(),
            cluster_sha256: Digest::of("cluster.yaml"),
            cluster: json!({"spec": {"addons": addons}}),
            bundle: BundleRecord {
                manifest: Digest::of("bundle"),
                signers: Default::default(),
                date: None,
                sequence: None,
            },
            program: "kubexm-install 0".to_owned(),
        }
    }

    #[test]
    fn what_no_cluster_yaml_can_have_is_left_alone_and_counted() {
        let addon =
            |name: &str, kind: &str, namespace: &str| json!({"name": name, "type": kind, "namespace": namespace});
        let of = applied(json!([
            addon("web", "helm", "apps"),
            addon("x\n   the bundle is signed by ops", "helm", "apps"),
            addon("--kubeconfig=/x", "helm", "apps"),
            addon("a", "helm", "a/secrets?labelSelector=name%3Dweb&x="),
            addon("a", "program", "apps"),
        ]));
        let names: Vec<String> = recorded(Some(&of)).into_iter().map(|addon| addon.name).collect();
        assert_eq!(names, ["web"]);
        let warnings = warnings(&[], Some(&of));
        assert!(matches!(&*warnings, [one] if one.contains("4 add-ons that no cluster.yaml can have")), "{warnings:?}");
    }

    #[test]
    fn thousands_of_a_record_do_not_push_the_question_out_of_sight() {
        let of = applied((0..5_000).map(|n| json!({"name": format!("a{n}"), "type": "yaml"})).collect());
        let cluster = Cluster::named("demo");
        let removed = super::of(&cluster, Some(&of));
        assert_eq!(removed.len(), MOST);
        assert_eq!(warnings(&removed, Some(&of)).len(), NAMED + 2);
    }
}
