//! Settings that `upgrade` brings a running cluster, whether its version changes or not: those that kubeadm writes anew on every node when
//! it upgrades it.
//!
//! Which nodes have them is said in the cluster: before the first one gets them which ones are wanted ([`WantedSettings`]), and on each node
//! once it has them. Otherwise all nodes have what kubeadm was given on the first control plane.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::ClusterFacts;
use kubexm_plan::cluster_facts::applied::recorded;
use kubexm_plan::cluster_facts::settings::{ANNOTATION, CONFIG_MAP};
use kubexm_plan::cluster_facts::{SETTINGS, WantedSettings};
use kubexm_plan::op::{KubeObject, NodeAnnotation};
use kubexm_plan::{Step, Undo};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{EtcdKind, document};
use serde_json::{Value, json};

use super::config_differences::{differences, values};
use super::kubeadm_config::{self, WATCHES_END, WATCHES_END_WITHIN};
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;

/// Those of control planes, by the beginning of their paths in kubeadm's configuration.
const OF_PLANES: [&str; 6] = [
    OF_API_SERVER,
    "apiServer.extraVolumes",
    "certificateValidityPeriod",
    "controllerManager.extraArgs.",
    OF_ETCD,
    "scheduler.extraArgs.",
];
/// Flags of API servers.
const OF_API_SERVER: &str = "apiServer.extraArgs.";
/// Those of kubeadm's etcd.
const OF_ETCD: &str = "etcd.local.extraArgs.";
/// Those of kubelet.
const OF_KUBELET: &str = "KubeletConfiguration.";
/// What a running cluster has to keep: where its objects are and how they are stored, who has issued its tokens, its networks, and what kubelet has
/// written down of the node's processors and memory, with which it does not start otherwise.
const KEPT: [&str; 13] = [
    "apiServer.extraArgs.encryption-provider-config",
    "apiServer.extraArgs.etcd-prefix",
    "apiServer.extraArgs.etcd-servers-overrides",
    "apiServer.extraArgs.service-account-issuer",
    "apiServer.extraArgs.service-cluster-ip-range",
    "controllerManager.extraArgs.cluster-cidr",
    "controllerManager.extraArgs.node-cidr-mask-size",
    "controllerManager.extraArgs.service-cluster-ip-range",
    "KubeletConfiguration.cgroupDriver",
    "KubeletConfiguration.cpuManagerPolicy",
    "KubeletConfiguration.memoryManagerPolicy",
    "KubeletConfiguration.reservedMemory",
    "KubeletConfiguration.reservedSystemCPUs",
];
/// What of cluster.yaml kubeadm is given.
const FIELDS: [&str; 12] = [
    "kubernetes/apiServerArgs",
    "kubernetes/audit",
    "kubernetes/certSANs",
    "kubernetes/certificateValidityPeriod",
    "kubernetes/controllerManagerArgs",
    "kubernetes/dnsDomain",
    "kubernetes/featureGates",
    "kubernetes/kubeProxy",
    "kubernetes/kubelet",
    "kubernetes/maxPods",
    "kubernetes/proxyMode",
    "kubernetes/schedulerArgs",
];
/// Those that cluster.yaml always has.
const ALWAYS_THERE: [&str; 3] = ["kubernetes/dnsDomain", "kubernetes/maxPods", "kubernetes/proxyMode"];
/// The same, of an etcd that kubeadm runs.
const FIELDS_OF_ETCD: [&str; 2] = ["etcd/quota", "etcd/snapshots"];

/// What nodes of a cluster do not have yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Of all that an upgrade brings.
    pub digest: Digest,
    /// What its nodes say once they have them.
    attempt: String,
    /// Whether those of kubeadm's etcd are what every control plane has.
    pub keep_etcd: bool,
    /// Every node that had not all of them when the first one got them.
    wanted: BTreeSet<String>,
    /// Those that have them not yet.
    nodes: BTreeSet<String>,
}

impl Settings {
    /// None where all nodes have those of cluster.yaml.
    ///
    /// # Errors
    /// The control planes did not say whether an upgrade has begun to bring any.
    pub fn of(
        cx: &PlanContext<'_>,
        first: &PlannedHost<'_>,
        running: &ClusterFacts,
        now: i64,
    ) -> Result<Option<Self>, RecipeError> {
        let gaps = running.gaps.iter().filter(|gap| gap.what == SETTINGS);
        let gaps: Vec<String> = gaps.map(|gap| format!("{}: {}: {}", gap.host, gap.what, gap.why)).collect();
        if !gaps.is_empty() && running.settings.is_none() {
            return Err(RecipeError::Unobserved { what: SETTINGS, gaps });
        }
        let text = kubeadm_config::upgraded(cx, first)?;
        let digest = digest(&text);
        let nodes = cx.nodes()?;
        let of = |wants: &dyn Fn(&PlannedHost<'_>) -> bool| -> BTreeSet<String> {
            let wanting = nodes.iter().filter(|node| node.in_cluster() && wants(node));
            wanting.map(|node| node.name().to_owned()).collect()
        };
        let has = |node: &str, attempt: &str| {
            let facts = running.nodes.iter().find(|facts| facts.name == node);
            // One that is not in the cluster any more wants nothing.
            facts.is_none_or(|facts| facts.settings.as_deref() == Some(attempt))
        };
        let begun = running.settings.as_ref();
        let unsettled = begun.filter(|begun| !begun.nodes.iter().all(|node| has(node, &begun.attempt)));
        let (keep_etcd, wanted) = match unsettled {
            // Some nodes have others by now, and which ones kubeadm was given is no answer for the rest.
            Some(other) if other.settings != digest => (false, of(&|_| true)),
            Some(begun) => {
                let workers = nodes.iter().any(|node| !node.roles.control_plane && begun.nodes.contains(node.name()));
                (false, of(&|node| node.roles.control_plane || workers))
            }
            None => {
                let Differing { planes, kubelets, etcd } = Differing::of(first, &text);
                (!etcd, of(&|node| kubelets || (planes && node.roles.control_plane)))
            }
        };
        // A new attempt leaves out nobody: a node may have had these settings, and others since.
        let (attempt, nodes) = match unsettled.filter(|begun| begun.settings == digest) {
            Some(begun) => {
                let lacking = wanted.iter().filter(|node| !has(node, &begun.attempt)).cloned().collect();
                (begun.attempt.clone(), lacking)
            }
            None => (now.to_string(), wanted.clone()),
        };
        Ok((!nodes.is_empty()).then_some(Self { digest, attempt, keep_etcd, wanted, nodes }))
    }

    /// Whether a node has to get them.
    pub fn is_of(&self, node: &PlannedHost<'_>) -> bool {
        self.nodes.contains(node.name())
    }

    /// Says in the cluster which settings its nodes are to have, before the first one gets them: a run that ends in the middle is completed, or
    /// undone, by the next one.
    pub fn begun(&self, draft: &mut Draft<'_>, first: &PlannedHost<'_>) -> Result<Step, RecipeError> {
        let (attempt, nodes) = (self.attempt.clone(), self.wanted.clone());
        let wanted = WantedSettings { settings: self.digest, attempt, nodes };
        let fault = |error: serde_json::Error| RecipeError::Document { name: CONFIG_MAP, reason: error.to_string() };
        let text = serde_json::to_string_pretty(&wanted.to_config_map()).map_err(fault)? + "\n";
        let title = "Say in the cluster which settings its nodes are to have";
        Ok(Step::on(first.name(), "upgrade.settings", title)
            .ensure(KubeObject::new(CONFIG_MAP, draft.text(text)))
            .retries(3)
            .undo(Undo::RestoreBefore)
            .build())
    }

    /// Says on a node that it has them.
    pub fn had_by(&self, on: &str, node: &PlannedHost<'_>) -> Step {
        let name = node.name();
        let title = format!("Note on node {name} that it has the settings of cluster.yaml");
        Step::on(on, &format!("upgrade.settings-{name}"), &title)
            .domain(name)
            .ensure(NodeAnnotation { node: name.to_owned(), key: ANNOTATION.to_owned(), value: self.attempt.clone() })
            .retries(3)
            .undo(Undo::RestoreBefore)
            .build()
    }
}

/// Of which parts cluster.yaml has other settings than the nodes, where all of these have the same.
struct Differing {
    planes: bool,
    kubelets: bool,
    etcd: bool,
}

impl Differing {
    /// What kubeadm was given on the first control plane is compared; where that is not known, nothing is ([`unknown`]).
    fn of(first: &PlannedHost<'_>, text: &str) -> Self {
        let given = first.facts.kubeadm_config_text.as_deref().and_then(|before| differences(before, text));
        let given = given.unwrap_or_default();
        let given: Vec<&str> = given.iter().filter(|setting| !is_ours(setting)).map(|setting| path(setting)).collect();
        let any = |is: fn(&str) -> bool| given.iter().any(|path| is(path));
        Self { planes: any(is_of_planes), kubelets: any(is_of_kubelet), etcd: any(|path| path.starts_with(OF_ETCD)) }
    }
}

/// Whether an upgrade brings a setting that differs ([`differences`]).
pub fn is_brought(setting: &str) -> bool {
    let path = path(setting);
    is_of_planes(path) || is_of_kubelet(path)
}

fn is_of_planes(path: &str) -> bool {
    OF_PLANES.iter().any(|prefix| path.starts_with(prefix)) && !is_kept(path)
}

fn is_of_kubelet(path: &str) -> bool {
    path.starts_with(OF_KUBELET) && !path.ends_with("apiVersion") && !is_kept(path)
}

fn is_kept(path: &str) -> bool {
    KEPT.iter().any(|kept| path.starts_with(kept))
}

/// A flag of ours that a cluster does not have yet: it comes with another version, and alone gives no node a turn.
fn is_ours(setting: &str) -> bool {
    let flag = setting.strip_prefix(OF_API_SERVER).and_then(|flag| flag.strip_prefix(WATCHES_END));
    flag.and_then(|rest| rest.strip_prefix(": unset -> ")) == Some(WATCHES_END_WITHIN)
}

fn path(setting: &str) -> &str {
    setting.split(": ").next().unwrap_or(setting)
}

/// Of all settings that an upgrade brings.
fn digest(text: &str) -> Digest {
    let all = values(text).unwrap_or_default();
    // With or without it they are the same.
    let is_ours = |path: &str, value: &Value| {
        path.strip_prefix(OF_API_SERVER) == Some(WATCHES_END) && *value == WATCHES_END_WITHIN
    };
    let brought = all.into_iter().filter(|(path, value)| is_brought(path) && !is_ours(path, value));
    Digest::of(json!(brought.collect::<BTreeMap<String, Value>>()).to_string())
}

/// Why nobody can say what the nodes have, where cluster.yaml has other settings than the last successful run has applied: a first control plane that
/// has joined its cluster was given nothing by kubeadm's init.
pub fn unknown(cx: &PlanContext<'_>, first: &PlannedHost<'_>, running: &ClusterFacts) -> Option<String> {
    let applied = running.applied.as_ref().filter(|_| first.facts.kubeadm_config.is_none())?;
    let now = recorded(document(cx.cluster));
    let stacked = cx.cluster.etcd.kind == EtcdKind::Kubeadm;
    let fields = FIELDS.into_iter().chain(FIELDS_OF_ETCD.into_iter().filter(|_| stacked));
    // Older programs have written fewer of those that always have a value.
    let differs = |field: &&str| {
        let pointer = format!("/spec/{field}");
        let (had, has) = (applied.cluster.pointer(&pointer), now.pointer(&pointer));
        had != has && !(had.is_none() && ALWAYS_THERE.contains(field))
    };
    let differing: Vec<String> =
        fields.filter(differs).map(|field| format!("spec.{}", field.replace('/', "."))).collect();
    (!differing.is_empty()).then(|| {
        format!(
            "cluster.yaml has another {} than the record of the cluster, and what kubeadm was given is not known of {}, which has joined the \
             cluster: revert the change; an upgrade to another version brings it",
            differing.join(", "),
            first.name()
        )
    })
}
