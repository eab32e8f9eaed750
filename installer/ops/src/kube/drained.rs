//! What keeps a node from being drained: its pods, and the budgets (PodDisruptionBudget) that do not let them go.

use std::fmt;

use serde_json::Value;

use super::{cordoned_by, find_node, get, ready_condition};
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
        let selector = format!("spec.nodeName={node}");
        let pods = get(machine, ["pods", "--all-namespaces", "--field-selector", &selector])?;
        let mut pods: Vec<(&Value, LeftPod)> = items(&pods).filter(|pod| goes(pod)).map(|pod| (pod, of(pod))).collect();
        if pods.iter().any(|(_, pod)| !pod.terminating) {
            let budgets = get(machine, ["poddisruptionbudgets", "--all-namespaces"])?;
            for (object, pod) in pods.iter_mut().filter(|(_, pod)| !pod.terminating) {
                pod.budgets = items(&budgets).filter(|budget| blocks(budget, object)).map(name).collect();
            }
        }
        let kubelet = object.pointer("/status/nodeInfo/kubeletVersion").and_then(Value::as_str).unwrap_or_default();
        let kubelet = kubelet.to_owned();
        let cordoned_by = cordoned_by(&object).map(str::to_owned);
        let pods = pods.into_iter().map(|(_, pod)| pod).collect();
        Ok(Some(Self { schedulable, cordoned_by, ready, kubelet, pods }))
    }

    pub(crate) fn is_drained(&self) -> bool {
        !self.schedulable && self.pods.iter().all(|pod| pod.terminating && !self.ready)
    }

    /// Whether the kubelet has the version for which the node was to be drained.
    pub(crate) fn has_kubelet(&self, wanted: Option<&str>) -> bool {
        wanted.is_some_and(|wanted| self.kubelet == wanted)
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

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn name(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or("?");
    format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"))
}

/// Whether a drain has to remove this pod.
fn goes(pod: &Value) -> bool {
    let is_static = pod.pointer("/metadata/annotations/kubernetes.io~1config.mirror").is_some();
    let ended = matches!(pod.pointer("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"));
    let of_daemon_set = owners(pod).any(|owner| owner["kind"] == "DaemonSet");
    !is_static && !ended && !of_daemon_set
}

fn owners(pod: &Value) -> impl Iterator<Item = &Value> {
    pod.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
}

fn of(pod: &Value) -> LeftPod {
    LeftPod {
        name: name(pod),
        bare: !owners(pod).any(|owner| owner["controller"] == true),
        terminating: pod.pointer("/metadata/deletionTimestamp").is_some(),
        budgets: Vec::new(),
    }
}

/// Whether a budget selects the pod and allows no disruption.
fn blocks(budget: &Value, pod: &Value) -> bool {
    let same = budget.pointer("/metadata/namespace") == pod.pointer("/metadata/namespace");
    let allowed = budget.pointer("/status/disruptionsAllowed").and_then(Value::as_i64).unwrap_or(0);
    same && allowed <= 0 && budget.pointer("/spec/selector").is_some_and(|selector| selects(selector, pod))
}

/// A label selector (`metav1.LabelSelector`); an empty one selects every pod.
fn selects(selector: &Value, pod: &Value) -> bool {
    let label = |key: &str| pod.pointer("/metadata/labels").and_then(|labels| labels.get(key)).and_then(Value::as_str);
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

    fn pod(name: &str, more: Value) -> Value {
        let mut pod = json!({"metadata": {"namespace": "shop", "name": name, "labels": {"app": "web", "tier": "a"}}});
        if let (Some(metadata), Some(more)) = (pod["metadata"].as_object_mut(), more.as_object()) {
            metadata.extend(more.clone());
        }
        pod
    }

    #[test]
    fn only_pods_that_a_drain_evicts_are_waited_for() {
        assert!(goes(&pod("web", json!({}))));
        assert!(!goes(&pod("proxy", json!({"ownerReferences": [{"kind": "DaemonSet", "controller": true}]}))));
        assert!(!goes(&pod("etcd", json!({"annotations": {"kubernetes.io/config.mirror": "x"}}))));
        let mut job = pod("job", json!({}));
        job["status"] = json!({"phase": "Succeeded"});
        assert!(!goes(&job));
    }

    #[test]
    fn a_budget_blocks_the_pods_that_its_selector_matches_while_it_allows_no_disruption() {
        let budget = |selector: Value, allowed: i64| json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"selector": selector}, "status": {"disruptionsAllowed": allowed}});
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
