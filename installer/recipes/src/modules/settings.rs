//! Settings that `upgrade` brings a running cluster, whether its version changes or not: those that kubeadm writes anew on every node when
//! it upgrades it.
//!
//! Which nodes have them is said in the cluster: before the first one gets them which ones are wanted ([`WantedSettings`]), and on each node
//! once it has them. Before an upgrade has ever brought any, all nodes have what kubeadm was given on the first control plane.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::ClusterFacts;
use kubexm_plan::cluster_facts::applied::recorded;
use kubexm_plan::cluster_facts::settings::{ANNOTATION, CONFIG_MAP};
use kubexm_plan::cluster_facts::{SETTINGS, WantedSettings};
use kubexm_plan::op::{KubeObject, NodeAnnotation};
use kubexm_plan::{Step, Undo};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{EtcdKind, document};
use serde_json::Value;

use super::config_differences::{differences, values};
use super::kubeadm_config;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;

/// Those of control planes, by the beginning of their paths in kubeadm's configuration.
const OF_PLANES: [&str; 6] = [
    "apiServer.extraArgs.",
    "apiServer.extraVolumes",
    "certificateValidityPeriod",
    "controllerManager.extraArgs.",
    OF_ETCD,
    "scheduler.extraArgs.",
];
/// Those of kubeadm's etcd.
const OF_ETCD: &str = "etcd.local.extraArgs.";
/// Those of kubelet.
const OF_KUBELET: &str = "KubeletConfiguration.";
/// What a running cluster has to keep: where its objects are and how they are stored, its networks, and what kubelet has written down of the
/// node's processors and memory, with which it does not start otherwise.
const KEPT: [&str; 10] = [
    "apiServer.extraArgs.encryption-provider-config",
    "apiServer.extraArgs.etcd-prefix",
    "apiServer.extraArgs.service-cluster-ip-range",
    "controllerManager.extraArgs.cluster-cidr",
    "controllerManager.extraArgs.node-cidr-mask-size",
    "controllerManager.extraArgs.service-cluster-ip-range",
    "KubeletConfiguration.cgroupDriver",
    "KubeletConfiguration.cpuManagerPolicy",
    "KubeletConfiguration.memoryManagerPolicy",
    "KubeletConfiguration.reservedSystemCPUs",
];
/// What makes those of control planes in cluster.yaml.
const FIELDS_OF_PLANES: [&str; 6] =
    ["apiServerArgs", "audit", "certificateValidityPeriod", "controllerManagerArgs", "featureGates", "schedulerArgs"];
/// The same of kubelet.
const FIELDS_OF_KUBELET: [&str; 3] = ["featureGates", "kubelet", "maxPods"];

/// What nodes of a cluster do not have yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Of all that an upgrade brings.
    pub digest: Digest,
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
        let has = |node: &str, settings: Digest| {
            let facts = running.nodes.iter().find(|facts| facts.name == node);
            // One that is not in the cluster any more wants nothing.
            facts.is_none_or(|facts| facts.settings.as_deref() == Some(settings.to_string().as_str()))
        };
        let begun = running.settings.as_ref();
        let unsettled = begun.filter(|begun| !begun.nodes.iter().all(|node| has(node, begun.settings)));
        let (keep_etcd, wanted) = match unsettled {
            // Some nodes have others by now, and which ones kubeadm was given is no answer for the rest.
            Some(other) if other.settings != digest => (false, of(&|_| true)),
            Some(begun) => {
                let workers = nodes.iter().any(|node| !node.roles.control_plane && begun.nodes.contains(node.name()));
                (false, of(&|node| node.roles.control_plane || workers))
            }
            None => {
                let Differing { planes, kubelets, etcd } = Differing::of(cx, first, running, &text);
                (!etcd, of(&|node| kubelets || (planes && node.roles.control_plane)))
            }
        };
        let is_begun = unsettled.is_some_and(|begun| begun.settings == digest);
        let nodes: BTreeSet<String> = wanted.iter().filter(|node| !(is_begun && has(node, digest))).cloned().collect();
        Ok((!nodes.is_empty()).then_some(Self { digest, keep_etcd, wanted, nodes }))
    }

    /// Whether a node has to get them.
    pub fn is_of(&self, node: &PlannedHost<'_>) -> bool {
        self.nodes.contains(node.name())
    }

    /// Says in the cluster which settings its nodes are to have, before the first one gets them: a run that ends in the middle is completed, or
    /// taken back, by the next one.
    pub fn begun(&self, draft: &mut Draft<'_>, first: &PlannedHost<'_>) -> Result<Step, RecipeError> {
        let wanted = WantedSettings { settings: self.digest, nodes: self.wanted.clone() };
        let fault = |error: serde_json::Error| RecipeError::Document { name: CONFIG_MAP, reason: error.to_string() };
        let text = serde_json::to_string_pretty(&wanted.to_config_map()).map_err(fault)? + "\n";
        let title = "Say in the cluster which settings its nodes are to have";
        Ok(Step::on(first.name(), "upgrade.settings", title)
            .ensure(KubeObject::new(CONFIG_MAP, draft.text(text)))
            .retries(3)
            .undo(Undo::RestoreBefore)
            .build())
    }
}

/// Says on a node that it has these settings.
pub fn has(on: &str, node: &PlannedHost<'_>, settings: Digest) -> Step {
    let name = node.name();
    let title = format!("Note on node {name} that it has the settings of cluster.yaml");
    Step::on(on, &format!("upgrade.settings-{name}"), &title)
        .domain(name)
        .ensure(NodeAnnotation { node: name.to_owned(), key: ANNOTATION.to_owned(), value: settings.to_string() })
        .retries(3)
        .undo(Undo::RestoreBefore)
        .build()
}

/// Of which parts cluster.yaml has other settings than the nodes, where all of these have the same.
struct Differing {
    planes: bool,
    kubelets: bool,
    etcd: bool,
}

impl Differing {
    /// What kubeadm was given on the first control plane is compared; where that is not known, the record of what was applied.
    fn of(cx: &PlanContext<'_>, first: &PlannedHost<'_>, running: &ClusterFacts, text: &str) -> Self {
        let given = first.facts.kubeadm_config_text.as_deref().and_then(|before| differences(before, text));
        let Some(given) = given else {
            let stacked = cx.cluster.etcd.kind == EtcdKind::Kubeadm;
            let etcd = stacked && is_other(cx, running, &["etcd/quota", "etcd/snapshots"]);
            let of_kubernetes = |fields: &[&str]| {
                let fields: Vec<String> = fields.iter().map(|field| format!("kubernetes/{field}")).collect();
                is_other(cx, running, &fields.iter().map(String::as_str).collect::<Vec<_>>())
            };
            let planes = etcd || of_kubernetes(&FIELDS_OF_PLANES);
            return Self { planes, kubelets: of_kubernetes(&FIELDS_OF_KUBELET), etcd };
        };
        let any =
            |is: fn(&str) -> bool| given.iter().map(|setting| path(setting)).any(|path| is(path) && !is_ours(path));
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

/// A flag of ours, which comes with another version and is no reason by itself.
fn is_ours(path: &str) -> bool {
    path.strip_prefix("apiServer.extraArgs.") == Some(kubeadm_config::WATCHES_END)
}

fn path(setting: &str) -> &str {
    setting.split(": ").next().unwrap_or(setting)
}

/// Of all settings that an upgrade brings.
fn digest(text: &str) -> Digest {
    let all = values(text).unwrap_or_default();
    let brought = all.into_iter().filter(|(path, _)| is_brought(path) && !is_ours(path));
    Digest::of(serde_json::json!(brought.collect::<BTreeMap<String, Value>>()).to_string())
}

/// Whether the last successful run has applied something else. What is not known is no difference.
fn is_other(cx: &PlanContext<'_>, running: &ClusterFacts, fields: &[&str]) -> bool {
    let Some(applied) = &running.applied else { return false };
    let now = recorded(document(cx.cluster));
    fields
        .iter()
        .map(|field| format!("/spec/{field}"))
        .any(|field| now.pointer(&field) != applied.cluster.pointer(&field))
}
