//! Observations from the API server.

use std::thread;

use kubexm_plan::cluster_facts::{
    APPLIED, AppliedCluster, BUDGETS, COMPONENTS, ClusterFacts, Component, Condition, DEPRECATED_APIS, DeprecatedApi,
    Gap, IDENTITY, KUBE_PROXY, KUBEADM_CONFIG, KubeadmCluster, NODES, NodeFacts, SERVER_VERSION, SETTINGS, TightBudget,
    WantedSettings, applied, settings,
};
use serde::Deserialize;
use serde_json::Value;

use super::gaps::Gaps;
use super::{kubeadm, metrics};
use crate::kube::{self, pages};
use crate::{Machine, OpError};

const VERSION: &str = "/version";
const ALL_NODES: &str = "/api/v1/nodes";
/// The DaemonSet that kubeadm makes.
const PROXY: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy";
const STATIC_PODS: &str = "/api/v1/namespaces/kube-system/pods?labelSelector=tier%3Dcontrol-plane";
/// The most budgets that are looked at: whoever has rights in one namespace makes any number of them, and a host has a time to answer.
const MOST_BUDGETS: usize = 3_000;
const ROLE: &str = "node-role.kubernetes.io/";

/// The results.
#[derive(Debug, Default)]
pub(super) struct Seen {
    server_version: Option<String>,
    kube_proxy: Option<String>,
    nodes: Vec<NodeFacts>,
    components: Vec<Component>,
    applied: Option<AppliedCluster>,
    settings: Option<WantedSettings>,
    kubeadm: Option<KubeadmCluster>,
    budgets: Vec<TightBudget>,
    deprecated: Vec<DeprecatedApi>,
    gaps: Vec<Gap>,
}

/// Sends all requests in parallel, if the API server answers at all.
pub(super) fn look(machine: &Machine, host: &str) -> Seen {
    let mut gaps = Gaps::of(host);
    let version = gaps.note(SERVER_VERSION, kube::raw(machine, VERSION));
    let Some(version) = version.flatten() else {
        return Seen { gaps: gaps.found, ..Seen::default() };
    };
    let map = |name: &str| format!("/api/v1/namespaces/{}/configmaps/{name}", applied::NAMESPACE);
    let (record, settings) = (map(applied::CONFIG_MAP), map(settings::CONFIG_MAP));
    let ([nodes, pods, record, settings, config, proxy], budgets, metrics) = thread::scope(|scope| {
        let ask = |path: String| scope.spawn(move || kube::raw(machine, &path));
        let metrics = scope.spawn(|| metrics::deprecated_apis(machine));
        let budgets = scope.spawn(|| budgets(machine));
        let fault = || OpError::other("the request failed, because of a fault of this program".to_owned());
        let asked = [ALL_NODES, STATIC_PODS, &record, &settings, kubeadm::CONFIG, PROXY].map(str::to_owned).map(ask);
        let answers = asked.map(|asked| asked.join().unwrap_or_else(|_| Err(fault())));
        let budgets = budgets.join().unwrap_or_else(|_| Err(fault()));
        (answers, budgets, metrics.join().unwrap_or_else(|_| Err(fault())))
    });
    let mut seen = Seen { server_version: version["gitVersion"].as_str().map(str::to_owned), ..Seen::default() };
    // A cluster may have none: no gap.
    let proxy =
        gaps.note(KUBE_PROXY, proxy).flatten().map(|proxy| text(&proxy, "/spec/template/spec/containers/0/image"));
    seen.kube_proxy = proxy.filter(|image| !image.is_empty());
    seen.nodes = items(gaps.note(NODES, nodes)).iter().map(node).collect();
    seen.components = items(gaps.note(COMPONENTS, pods)).iter().map(component).collect();
    let (budgets, is_all) = gaps.note(BUDGETS, budgets).unwrap_or((Vec::new(), true));
    seen.budgets = budgets;
    seen.budgets.sort();
    if !is_all {
        gaps.add(BUDGETS, format!("there are more than {MOST_BUDGETS}, and those are looked at"));
    }
    seen.deprecated = gaps.note(DEPRECATED_APIS, metrics).unwrap_or_default();
    seen.nodes.sort_by(|one, other| one.name.cmp(&other.name));
    seen.components.sort_by(|one, other| (&one.node, &one.name).cmp(&(&other.node, &other.name)));
    match gaps.note(APPLIED, record) {
        Some(Some(object)) => match AppliedCluster::of_config_map(&object) {
            Ok(applied) => seen.applied = Some(applied),
            Err(why) => gaps.add(APPLIED, why),
        },
        Some(None) => gaps.add(
            APPLIED,
            "the cluster has none: it was created by an earlier kubexm-install, or its create has not finished",
        ),
        None => {}
    }
    // Most clusters have none: no gap.
    match gaps.note(SETTINGS, settings).flatten().map(|object| WantedSettings::of_config_map(&object)) {
        Some(Ok(settings)) => seen.settings = Some(settings),
        Some(Err(why)) => gaps.add(SETTINGS, why),
        None => {}
    }
    if let Some(object) = gaps.note(KUBEADM_CONFIG, config).flatten() {
        match kubeadm::of_config_map(&object) {
            Ok(config) => seen.kubeadm = Some(config),
            Err(why) => gaps.add(KUBEADM_CONFIG, why),
        }
    }
    seen.gaps = gaps.found;
    seen
}

impl Seen {
    pub(super) fn add_to(self, host: &str, facts: &mut ClusterFacts, gaps: &mut Vec<Gap>) {
        facts.server_version = self.server_version;
        facts.kube_proxy = self.kube_proxy;
        facts.nodes = self.nodes;
        facts.components = self.components;
        facts.tight_budgets = self.budgets;
        facts.deprecated_apis = self.deprecated;
        gaps.extend(self.gaps);
        if let Some(applied) = &self.applied {
            facts.name.get_or_insert_with(|| applied.name.clone());
            if let (Some(stamp), Some(record)) = (facts.id, applied.id)
                && stamp != record
            {
                let why = format!("the stamp of this host has the id {stamp}, and the record in the cluster {record}");
                gaps.push(Gap { host: host.to_owned(), what: IDENTITY.to_owned(), why });
            }
            facts.id = facts.id.or(applied.id);
        }
        facts.kubeadm = self.kubeadm;
        facts.applied = self.applied;
        facts.settings = self.settings;
    }
}

fn items(list: Option<Option<Value>>) -> Vec<Value> {
    let items = list.flatten().and_then(|mut list| list.get_mut("items").map(Value::take));
    items.and_then(|items| items.as_array().cloned()).unwrap_or_default()
}

fn text(object: &Value, path: &str) -> String {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn array<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    object.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn is_ready(object: &Value) -> bool {
    array(object, "/status/conditions").iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn node(object: &Value) -> NodeFacts {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let roles = labels.into_iter().flatten().filter_map(|(label, _)| label.strip_prefix(ROLE));
    let runtime = text(object, "/status/nodeInfo/containerRuntimeVersion");
    let (runtime, version) = runtime.split_once("://").unwrap_or((&runtime, ""));
    let addresses = array(object, "/status/addresses").iter().filter(|address| address["type"] == "InternalIP");
    NodeFacts {
        name: text(object, "/metadata/name"),
        roles: roles.filter(|role| !role.is_empty()).map(str::to_owned).collect(),
        kubelet: text(object, "/status/nodeInfo/kubeletVersion"),
        runtime: runtime.to_owned(),
        runtime_version: version.to_owned(),
        os_image: text(object, "/status/nodeInfo/osImage"),
        kernel: text(object, "/status/nodeInfo/kernelVersion"),
        addresses: addresses.map(|address| text(address, "/address")).collect(),
        ready: is_ready(object),
        conditions: array(object, "/status/conditions").iter().map(condition).collect(),
        unschedulable: object.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false),
        cordoned_by: kube::cordoned_by(object).map(str::to_owned),
        settings: kube::annotation(object, settings::ANNOTATION).map(str::to_owned),
    }
}

/// What of a budget is read. All else a user may have written there.
#[derive(Deserialize)]
struct Budget {
    metadata: Named,
    #[serde(default)]
    status: BudgetStatus,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BudgetStatus {
    expected_pods: u64,
    disruptions_allowed: u64,
    current_healthy: u64,
    desired_healthy: u64,
}

/// Those that are tight, and whether all were looked at.
fn budgets(machine: &Machine) -> Result<(Vec<TightBudget>, bool), OpError> {
    let (mut tight, mut left) = (Vec::new(), MOST_BUDGETS);
    let is_all = pages::read(machine, pages::BUDGETS, pages::OF_USERS, |page: Vec<Budget>| {
        left = left.saturating_sub(page.len());
        tight.extend(page.into_iter().filter_map(tight_budget));
        left > 0
    })?;
    Ok((tight, is_all))
}

/// A budget that covers pods and lets none of them go now.
fn tight_budget(Budget { metadata, status }: Budget) -> Option<TightBudget> {
    let BudgetStatus { expected_pods: pods, disruptions_allowed: allowed, current_healthy, desired_healthy } = status;
    (pods > 0 && allowed == 0).then(|| TightBudget {
        name: format!("{}/{}", metadata.namespace, metadata.name),
        pods,
        healthy: current_healthy,
        wanted: desired_healthy,
    })
}

fn condition(value: &Value) -> Condition {
    Condition { kind: text(value, "/type"), status: text(value, "/status"), reason: text(value, "/reason") }
}

fn component(pod: &Value) -> Component {
    let status = array(pod, "/status/containerStatuses").first();
    let restarts = status.and_then(|status| status["restartCount"].as_u64()).unwrap_or(0);
    Component {
        name: text(pod, "/metadata/labels/component"),
        node: text(pod, "/spec/nodeName"),
        ready: is_ready(pod),
        image: text(pod, "/spec/containers/0/image"),
        restarts,
    }
}
