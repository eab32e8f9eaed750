//! A DNS cache on every node: its manifest, its images, when it comes and goes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use crate::common::{Site, text};
use insta::{Settings, assert_snapshot};
use kubexm_plan::cluster_facts::AppliedCluster;
use kubexm_plan::op::{Manifests, Op};
use kubexm_plan::{ClusterFacts, Plan, Step, StepId, Undo, lint};
use kubexm_recipes::{Recipe, RecipeError, add_node, sample};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{Cluster, NodeLocalDns, RegistryKind};
use serde_json::Value;

const STEP: &str = "node1/dns.nodelocaldns";

fn cluster() -> Cluster {
    let mut cluster = sample::fleet(1, 2);
    cluster.kubernetes.as_mut().unwrap().nodelocaldns = Some(NodeLocalDns::default());
    cluster
}

fn checked(plan: Plan) -> Plan {
    let (_, warnings) = lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, Vec::new());
    plan
}

fn step<'p>(plan: &'p Plan, id: &str) -> &'p Step {
    plan.step(&StepId(id.to_owned())).unwrap_or_else(|| panic!("{id}"))
}

fn manifests<'p>(plan: &'p Plan, id: &str) -> &'p Manifests {
    match step(plan, id).ops.as_slice() {
        [Op::Manifests(op)] => op,
        other => panic!("{other:?}"),
    }
}

/// The hosts of a cluster that was created with the first cluster.yaml, and now has the second.
fn running(made: &Cluster, now: &Cluster, absent: Option<&str>) -> (Site, ClusterFacts) {
    let made = Site::of(made.clone()).create().unwrap();
    let map: Value = serde_json::from_str(text(&made, "kubexm-cluster")).unwrap();
    let mut site = Site::of(now.clone());
    site.join_all_but(absent.unwrap_or("nobody"));
    let applied = Some(AppliedCluster::of_config_map(&map).unwrap());
    (site, ClusterFacts { applied, ..ClusterFacts::default() })
}

#[test]
fn the_manifest() {
    let plan = checked(Site::of(cluster()).create().unwrap());
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/nodelocaldns");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| assert_snapshot!("manifest", &plan.texts[&manifests(&plan, STEP).blob]));
}

#[test]
fn it_comes_after_the_check_of_the_nodes_and_its_image_is_on_each() {
    for kind in [RegistryKind::Embedded, RegistryKind::None] {
        let mut cluster = cluster();
        cluster.registry.kind = kind;
        let plan = checked(Site::of(cluster).create().unwrap());
        for host in ["node1", "node2", "node3"] {
            let loads = |step: &&Step| step.host == host && step.title.contains("/k8s-dns-node-cache:");
            assert_eq!(plan.steps.iter().filter(loads).count(), 1, "{host} must start it while there is no registry");
        }
        let after = &step(&plan, STEP).after;
        assert!(after.iter().all(|id| id.0.starts_with("node1/check.")) && !after.is_empty(), "{after:?}");
        assert!(matches!(step(&plan, STEP).undo, Undo::WithParent { .. }));
    }
}

#[test]
fn without_it_nothing_of_it_is_planned() {
    let plan = checked(Site::of(sample::fleet(1, 2)).create().unwrap());
    assert!(!plan.render().contains("node-cache") && !plan.render().contains("nodelocaldns"), "{}", plan.render());
}

#[test]
fn a_running_cluster_gets_it_and_loses_it_by_create() {
    let plain = sample::fleet(1, 2);
    let create = |made: &Cluster, now: &Cluster| {
        let (site, facts) = running(made, now, None);
        let (plan, warnings) = Recipe::Create.plan(&site.cx(), &facts).unwrap();
        (checked(plan), warnings)
    };
    let (plan, warnings) = create(&plain, &cluster());
    assert_eq!((&step(&plan, STEP).undo, warnings), (&Undo::RestoreBefore, Vec::new()));
    let (plan, warnings) = create(&cluster(), &plain);
    let gone = manifests(&plan, "node1/dns.nodelocaldns.removed");
    assert_eq!((gone.blob, &*gone.name, &*gone.namespace), (Digest::of(""), "dns.nodelocaldns", "kube-system"));
    assert!(matches!(&*warnings, [one] if one.contains("the DNS cache of every node is removed")), "{warnings:?}");
    let (plan, warnings) = create(&cluster(), &cluster());
    assert!(!plan.render().contains("removed") && warnings.is_empty(), "{warnings:?}");
}

#[test]
fn a_join_brings_no_cache_and_takes_none_away() {
    let plain = sample::fleet(1, 2);
    let added = |made: &Cluster, now: &Cluster| {
        let (site, facts) = running(made, now, Some("node3"));
        add_node(&site.cx(), &facts, &["node3".to_owned()])
    };
    for (made, now, said) in [
        (&plain, &cluster(), "the cluster has no DNS cache"),
        (&cluster(), &plain, "the cluster has a DNS cache on every node"),
    ] {
        let refused = added(made, now).unwrap_err();
        assert!(matches!(refused, RecipeError::NetworkChanged { .. }), "{refused}");
        assert!(refused.to_string().contains(said), "{refused}");
    }
    let plan = added(&cluster(), &cluster()).unwrap();
    assert!(!plan.steps.iter().any(|step| step.id.0 == STEP), "the node's pod comes by itself");
    let loads = |step: &&Step| step.title.contains("/k8s-dns-node-cache:");
    assert_eq!(plan.steps.iter().filter(loads).map(|step| &*step.host).collect::<Vec<_>>(), ["node3"]);
}
