//! What keeps a node from being drained: its pods, and the budgets (PodDisruptionBudget) that do not let them go.

use std::collections::BTreeMap;
use std::fmt;

use kubexm_plan::op::{DrainedFor, PACKAGES};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{annotation, cordoned_by, find_node, pages, ready_condition};
use crate::{Machine, OpError};

/// What a drained node does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// New pods may be scheduled on it.
    pub schedulable: bool,
    /// On whose behalf kubexm has cordoned it.
    pub cordoned_by: Option<String>,
    /// Its kubelet answers; otherwise nobody confirms that the containers of a deleted pod have ended.
    pub ready: bool,
    /// `v1.34.4`, as the node reports it.
    pub kubelet: String,
    /// What it says of its packages ([`PACKAGES`]).
    pub packages: Option<String>,
    /// Without static pods, pods of DaemonSets, and pods that have ended.
    pub pods: Vec<LeftPod>,
}

/// A pod that is still on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftPod {
    /// `namespace/name`.
    pub name: String,
    /// No controller would create it again.
    pub bare: bool,
    /// It has been deleted, and its containers are ending.
    pub terminating: bool,
    /// `namespace/name` of the budgets that allow no disruption now.
    pub budgets: Vec<String>,
}

impl Left {
    /// What is on a node; none if there is no such node.
    pub(crate) fn on(machine: &Machine, node: &str) -> Result<Option<Self>, OpError> {
        let Some(object) = find_node(machine, node)? else { return Ok(None) };
        let schedulable = object.pointer("/spec/unschedulable").and_then(Value::as_bool) != Some(true);
        let ready = ready_condition(&object).is_some_and(|condition| condition["status"] == "True");
        // What a user of the cluster has written into them is not read: it may be long.
        let path = format!(
            "/api/v1/pods?fieldSelector=spec.nodeName%3D{node}%2Cstatus.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
        );
        let mut pods: Vec<(Pod, LeftPod)> = Vec::new();
        pages::read(machine, &path, pages::OF_USERS, |page: Vec<Pod>| {
            pods.extend(page.into_iter().filter(goes).map(|pod| {
                let left = of(&pod);
                (pod, left)
            }));
            true
        })?;
        if pods.iter().any(|(_, pod)| !pod.terminating) {
            pages::read(machine, pages::BUDGETS, pages::OF_USERS, |page: Vec<Budget>| {
                for budget in page {
                    for (object, pod) in pods.iter_mut().filter(|(_, pod)| !pod.terminating) {
                        if blocks(&budget, object) {
                            pod.budgets.push(named(&budget.metadata.namespace, &budget.metadata.name));
                        }
                    }
                }
                true
            })?;
        }
        let kubelet = object.pointer("/status/nodeInfo/kubeletVersion").and_then(Value::as_str).unwrap_or_default();
        let kubelet = kubelet.to_owned();
        let cordoned_by = cordoned_by(&object).map(str::to_owned);
        let pods = pods.into_iter().map(|(_, pod)| pod).collect();
        let packages = annotation(&object, PACKAGES).map(str::to_owned);
        Ok(Some(Self { schedulable, cordoned_by, ready, kubelet, packages, pods }))
    }

    pub(crate) fn is_drained(&self) -> bool {
        !self.schedulable && self.pods.iter().all(|pod| pod.terminating && !self.ready)
    }

    /// Whether the node has what it was to be drained for.
    pub(crate) fn has(&self, wanted: DrainedFor<'_>) -> bool {
        wanted.is_there(&self.kubelet, self.packages.as_deref())
    }

    /// Pods that no controller creates again.
    pub(crate) fn bare(&self) -> Vec<&str> {
        self.pods.iter().filter(|pod| pod.bare && !pod.terminating).map(|pod| pod.name.as_str()).collect()
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// More would not be read.
        const MOST: usize = 5;
        if self.pods.is_empty() {
            return f.write_str(if self.schedulable { "it is not cordoned yet" } else { "no pod is left" });
        }
        // Those that somebody has to do something about come first.
        let mut pods: Vec<&LeftPod> = self.pods.iter().collect();
        pods.sort_by_key(|pod| (pod.budgets.is_empty(), pod.terminating));
        let named: Vec<String> = pods.iter().take(MOST).map(ToString::to_string).collect();
        f.write_str(&named.join("; "))?;
        match pods.len().saturating_sub(MOST) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl fmt::Display for LeftPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.budgets.as_slice(), self.terminating) {
            (_, true) => write!(f, "pod {} is terminating", self.name),
            ([], _) => write!(f, "pod {} is not evicted yet", self.name),
            (budgets, _) => write!(
                f,
                "pod {} may not be evicted: the PodDisruptionBudget {} allows no disruption",
                self.name,
                budgets.join(", ")
            ),
        }
    }
}

/// Of a pod, what a drain looks at.
#[derive(Deserialize)]
struct Pod {
    metadata: PodMetadata,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMetadata {
    #[serde(default)]
    namespace: String,
    name: String,
    labels: Option<Labels>,
    annotations: Option<Annotations>,
    owner_references: Option<Vec<Owner>>,
    deletion_timestamp: Option<IgnoredAny>,
}

type Labels = BTreeMap<String, String>;

#[derive(Deserialize)]
struct Annotations {
    /// Of a static pod.
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Owner {
    kind: String,
    controller: Option<bool>,
}

#[derive(Default, Deserialize)]
struct PodStatus {
    phase: Option<String>,
}

/// A PodDisruptionBudget.
#[derive(Deserialize)]
struct Budget {
    metadata: BudgetMetadata,
    #[serde(default)]
    spec: BudgetSpec,
    #[serde(default)]
    status: BudgetStatus,
}

#[derive(Deserialize)]
struct BudgetMetadata {
    #[serde(default)]
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
struct BudgetSpec {
    selector: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BudgetStatus {
    disruptions_allowed: Option<i64>,
}

fn named(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// Whether a drain has to remove this pod.
fn goes(pod: &Pod) -> bool {
    let is_static = pod.metadata.annotations.as_ref().is_some_and(|annotations| annotations.mirror.is_some());
    let ended = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let of_daemon_set = owners(pod).any(|owner| owner.kind == "DaemonSet");
    !is_static && !ended && !of_daemon_set
}

fn owners(pod: &Pod) -> impl Iterator<Item = &Owner> {
    pod.metadata.owner_references.iter().flatten()
}

fn of(pod: &Pod) -> LeftPod {
    LeftPod {
        name: named(&pod.metadata.namespace, &pod.metadata.name),
        bare: !owners(pod).any(|owner| owner.controller == Some(true)),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        budgets: Vec::new(),
    }
}

/// Whether a budget selects the pod and allows no disruption.
fn blocks(budget: &Budget, pod: &Pod) -> bool {
    let same = budget.metadata.namespace == pod.metadata.namespace;
    let allowed = budget.status.disruptions_allowed.unwrap_or(0);
    let none = Labels::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
    same && allowed <= 0 && budget.spec.selector.as_ref().is_some_and(|selector| selects(selector, labels))
}

/// A label selector (`metav1.LabelSelector`); an empty one selects every pod.
fn selects(selector: &Value, labels: &Labels) -> bool {
    let label = |key: &str| labels.get(key).map(String::as_str);
    let labels = selector["matchLabels"].as_object();
    let equal = labels.into_iter().flatten().all(|(key, value)| label(key).is_some() && label(key) == value.as_str());
    let expressions = selector["matchExpressions"].as_array();
    equal
        && expressions.into_iter().flatten().all(|expression| {
            let found = label(expression["key"].as_str().unwrap_or_default());
            let listed = || {
                let values = expression["values"].as_array();
                values.into_iter().flatten().any(|value| found.is_some() && value.as_str() == found)
            };
            match expression["operator"].as_str() {
                Some("In") => listed(),
                Some("NotIn") => !listed(),
                Some("Exists") => found.is_some(),
                Some("DoesNotExist") => found.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, more: Value) -> Pod {
        let mut pod = json!({"metadata": {"namespace": "shop", "name": name, "labels": {"app": "web", "tier": "a"}}});
        if let (Some(metadata), Some(more)) = (pod["metadata"].as_object_mut(), more.as_object()) {
            metadata.extend(more.clone());
        }
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn only_pods_that_a_drain_evicts_are_waited_for() {
        assert!(goes(&pod("web", json!({}))));
        assert!(!goes(&pod("proxy", json!({"ownerReferences": [{"kind": "DaemonSet", "controller": true}]}))));
        assert!(!goes(&pod("etcd", json!({"annotations": {"kubernetes.io/config.mirror": "x"}}))));
        let mut job = pod("job", json!({}));
        job.status.phase = Some("Succeeded".to_owned());
        assert!(!goes(&job));
    }

    #[test]
    fn a_budget_blocks_the_pods_that_its_selector_matches_while_it_allows_no_disruption() {
        let budget = |selector: Value, allowed: i64| -> Budget {
            let spec = json!({"selector": selector});
            let metadata = json!({"namespace": "shop", "name": "web"});
            let budget = json!({"metadata": metadata, "spec": spec, "status": {"disruptionsAllowed": allowed}});
            serde_json::from_value(budget).unwrap()
        };
        let web = pod("web", json!({}));
        let by = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
        for selector in [json!({}), json!({"matchLabels": {"app": "web"}}), by("In", &["web"]), by("Exists", &[])] {
            assert!(blocks(&budget(selector.clone(), 0), &web), "{selector}");
            assert!(!blocks(&budget(selector, 1), &web));
        }
        for selector in [json!({"matchLabels": {"app": "db"}}), by("NotIn", &["web"]), by("DoesNotExist", &[])] {
            assert!(!blocks(&budget(selector.clone(), 0), &web), "{selector}");
        }
        let elsewhere = pod("web", json!({"namespace": "other"}));
        assert!(!blocks(&budget(json!({}), 0), &elsewhere));
    }

    #[test]
    fn a_pod_that_a_budget_holds_is_named_first_with_the_budget() {
        let left = |name: &str, budgets: &[&str], terminating| LeftPod {
            name: name.to_owned(),
            bare: false,
            terminating,
            budgets: budgets.iter().map(|budget| (*budget).to_owned()).collect(),
        };
        let pods = vec![left("shop/a", &[], true), left("shop/b", &[], false), left("shop/c", &["shop/web"], false)];
        assert_eq!(
            Left { ready: true, pods, ..Left::default() }.to_string(),
            "pod shop/c may not be evicted: the PodDisruptionBudget shop/web allows no disruption; pod shop/b is not \
             evicted yet; pod shop/a is terminating"
        );
    }
}
