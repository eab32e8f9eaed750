//! Settings that `upgrade` brings a running cluster, whether its version changes or not: those that kubeadm writes anew on every node when
//! it upgrades it.

use kubexm_plan::ClusterFacts;
use kubexm_plan::cluster_facts::applied::recorded;
use kubexm_spec::Digest;
use kubexm_spec::cluster::document;

use super::config_differences::differences;
use super::kubeadm_config;
use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;

/// Those of control planes, by the beginning of their paths in kubeadm's configuration.
const OF_PLANES: [&str; 7] = [
    "apiServer.extraArgs.",
    "apiServer.extraVolumes",
    "caCertificateValidityPeriod",
    "certificateValidityPeriod",
    "controllerManager.extraArgs.",
    "etcd.local.extraArgs.",
    "scheduler.extraArgs.",
];
/// Those of kubelet.
const OF_KUBELET: &str = "KubeletConfiguration.";
/// What makes those of control planes in cluster.yaml.
const FIELDS_OF_PLANES: [&str; 8] = [
    "kubernetes/apiServerArgs",
    "kubernetes/audit",
    "kubernetes/caCertificateValidityPeriod",
    "kubernetes/certificateValidityPeriod",
    "kubernetes/controllerManagerArgs",
    "kubernetes/schedulerArgs",
    "etcd/quota",
    "etcd/snapshots",
];
/// The same of kubelet.
const FIELDS_OF_KUBELET: [&str; 2] = ["kubernetes/kubelet", "kubernetes/maxPods"];

/// What the nodes of a cluster do not have yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Of the configuration that has them.
    pub digest: Digest,
    of_kubelet: bool,
}

impl Settings {
    /// None where all nodes have those of cluster.yaml. The first control plane says what kubeadm was given last; the record says what every
    /// node has, since it is written when all of them do.
    pub fn of(
        cx: &PlanContext<'_>,
        first: &PlannedHost<'_>,
        running: &ClusterFacts,
    ) -> Result<Option<Self>, RecipeError> {
        let text = kubeadm_config::upgraded(cx, first)?;
        let given = first.facts.kubeadm_config_text.as_deref().and_then(|before| differences(before, &text));
        let given = given.unwrap_or_default();
        let given: Vec<&str> = given.iter().map(|setting| path(setting)).filter(|path| !is_ours(path)).collect();
        let of_kubelet =
            given.iter().any(|path| path.starts_with(OF_KUBELET)) || is_other(cx, running, &FIELDS_OF_KUBELET);
        let of_planes = given.iter().any(|path| is_of_planes(path)) || is_other(cx, running, &FIELDS_OF_PLANES);
        Ok((of_kubelet || of_planes).then(|| Self { digest: Digest::of(&text), of_kubelet }))
    }

    /// Whether a node has to get them. A control plane has a kubelet, too.
    pub fn is_of(&self, node: &PlannedHost<'_>) -> bool {
        node.roles.control_plane || self.of_kubelet
    }
}

/// Whether an upgrade brings a setting that differs ([`differences`]).
pub fn is_brought(setting: &str) -> bool {
    let path = path(setting);
    is_of_planes(path) || path.starts_with(OF_KUBELET)
}

fn is_of_planes(path: &str) -> bool {
    OF_PLANES.iter().any(|prefix| path.starts_with(prefix))
}

/// A flag of ours, which comes with another version and is no reason by itself.
fn is_ours(path: &str) -> bool {
    path.strip_prefix("apiServer.extraArgs.") == Some(kubeadm_config::WATCHES_END)
}

fn path(setting: &str) -> &str {
    setting.split(": ").next().unwrap_or(setting)
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
