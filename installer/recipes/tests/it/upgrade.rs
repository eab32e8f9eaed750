//! An upgrade is refused by name before anything is changed, and goes node by node in an order that works.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use kubexm_plan::cluster_facts::{
    AppliedCluster, Certificate, Component, Condition, DeprecatedApi, EtcdMember, SERVER_VERSION, TightBudget,
};
use kubexm_plan::facts::Stamp;
use kubexm_plan::lint::{self, Order};
use kubexm_plan::op::{Act, KubeadmUpgrade, Op, Probe};
use kubexm_plan::{ClusterFacts, Plan, Undo};
use kubexm_recipes::{PauseAfter, RecipeError, Upgrade, UpgradeOptions, sample, upgrade};
use kubexm_spec::cluster::{API_PORT, InternalKind, LoadBalancerMode};
use kubexm_spec::{Cluster, ExitCode};

use crate::common::{Site, member, node_facts, text};

mod addons;
mod adopted;
mod adopted_refused;
mod external_etcd;
mod kube_proxy;
mod minors;
mod order;
mod os_packages;
mod own_etcd;
mod refused;
mod same_etcd;
mod settings;

const OLD: &str = "v1.34.4";
const MINOR: &str = "v1.35.4";
const PATCH: &str = "v1.34.8";
const NOW: i64 = 1_700_000_000;

/// A running cluster of v1.34.4, and a bundle of another version.
struct Case {
    site: Site,
    running: ClusterFacts,
    options: UpgradeOptions,
}

impl Case {
    fn of(control_planes: u8, workers: u8, target: &str) -> Self {
        Self::with(sample::fleet(control_planes, workers), target)
    }

    fn with(mut cluster: Cluster, target: &str) -> Self {
        if let Some(kubernetes) = &mut cluster.kubernetes {
            kubernetes.version = Some(target.to_owned());
        }
        let mut site = Site::of(cluster);
        for facts in site.facts.values_mut() {
            facts.joined = true;
            facts.stamp = Some(Stamp {
                cluster: "demo".to_owned(),
                id: Some(sample::CLUSTER_ID),
                run: "r".to_owned(),
                bundle: None,
                adopted: false,
            });
        }
        let running = running(&site.cluster);
        Self { site, running, options: UpgradeOptions { now: NOW, ..UpgradeOptions::default() } }
    }

    fn plan(&self) -> Result<Upgrade, RecipeError> {
        upgrade(&self.site.cx(), &self.running, &self.options)
    }

    fn steps(&self) -> Plan {
        let plan = self.plan().unwrap_or_else(|error| panic!("{error}")).plan;
        let (plan, _) = lint::check(plan).unwrap_or_else(|problems| panic!("{problems:#?}"));
        plan.plan().clone()
    }

    /// Why it is refused.
    fn refused(&self) -> String {
        match self.plan() {
            Err(error) => {
                assert_eq!(error.exit_code(), ExitCode::Preflight);
                let text = error.to_string();
                assert!(text.contains("nothing was changed"), "{text}");
                text
            }
            Ok(_) => panic!("it is not refused"),
        }
    }

    fn warnings(&self) -> String {
        self.plan().unwrap_or_else(|error| panic!("{error}")).warnings.join("\n")
    }
}

fn running(cluster: &Cluster) -> ClusterFacts {
    let planes = &cluster.role_groups.control_plane;
    let image = |name: &str, tag: &str| format!("registry.k8s.io/{name}:{tag}");
    let pods =
        [("etcd", "3.6.5-0"), ("kube-apiserver", OLD), ("kube-controller-manager", OLD), ("kube-scheduler", OLD)];
    let component = |node: &str, (name, tag): (&str, &str)| Component {
        name: name.to_owned(),
        node: node.to_owned(),
        ready: true,
        image: image(name, tag),
        restarts: 0,
    };
    ClusterFacts {
        name: Some("demo".to_owned()),
        id: Some(sample::CLUSTER_ID),
        server_version: Some(OLD.to_owned()),
        nodes: cluster.hosts.iter().map(|host| node_facts(&host.name)).collect(),
        etcd: planes.iter().map(|name| member(name)).collect(),
        components: planes.iter().flat_map(|node| pods.map(|pod| component(node, pod))).collect(),
        ..ClusterFacts::default()
    }
}

/// The record that a create of this cluster leaves.
fn applied(cluster: Cluster) -> AppliedCluster {
    let plan = Site::of(cluster).create().expect("a plan");
    let map: serde_json::Value = serde_json::from_str(text(&plan, "kubexm-cluster")).expect("JSON");
    AppliedCluster::of_config_map(&map).expect("a record")
}

/// Ids of the steps, and whether one runs before another.
fn before(plan: &Plan, one: &str, other: &str) -> bool {
    let order = Order::of(plan);
    let at = |id: &str| plan.steps.iter().position(|step| step.id.0 == id).unwrap_or_else(|| panic!("no step {id}"));
    order.is_earlier(at(one), at(other))
}

fn has(plan: &Plan, id: &str) -> bool {
    plan.steps.iter().any(|step| step.id.0 == id)
}
