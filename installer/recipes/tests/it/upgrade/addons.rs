//! The add-ons of the bundle come when every node has its version, and one that fails takes no node back.

use kubexm_plan::cluster_facts::AppliedCluster;
use kubexm_plan::op::{Op, Probe};
use kubexm_plan::{ClusterFacts, Plan, Step, Undo};
use kubexm_recipes::{PauseAfter, RecipeError, UpgradeOptions, sample};
use kubexm_spec::Cluster;
use kubexm_spec::cluster::{Addon, AddonKind, Nfs, OpenEbs};
use serde_json::Value;

use super::{Case, PATCH, before};
use crate::common::{self, Site, addon};

fn cluster(addons: Vec<Addon>) -> Cluster {
    Cluster { addons, ..sample::fleet(2, 1) }
}

/// The record of this cluster, made with the earlier version.
fn applied(cluster: Cluster) -> Option<AppliedCluster> {
    let plan = Site::of(cluster).create().expect("a plan");
    Some(record(&plan))
}

fn record(plan: &Plan) -> AppliedCluster {
    let map: Value = serde_json::from_str(common::text(plan, "kubexm-cluster")).expect("JSON");
    AppliedCluster::of_config_map(&map).expect("a record")
}

/// The record that a step writes, by the step's name.
fn written(plan: &Plan, id: &str) -> AppliedCluster {
    let step = step(plan, id).unwrap_or_else(|| panic!("no {id}"));
    let text = step.ops.iter().find_map(Op::text).expect("a text");
    let map: Value = serde_json::from_str(&plan.texts[&text]).expect("JSON");
    AppliedCluster::of_config_map(&map).expect("a record")
}

fn step<'p>(plan: &'p Plan, id: &str) -> Option<&'p Step> {
    plan.steps.iter().find(|step| step.id.0.split_once('/').is_some_and(|(_, name)| name == id))
}

fn names(record: &AppliedCluster) -> Vec<&str> {
    let list = record.cluster.pointer("/spec/addons").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|addon| addon["name"].as_str()).collect()
}

/// An upgrade of a cluster with the add-ons `old` and `stays` to one with `stays` and `new`.
fn case() -> Case {
    let mut case = Case::with(cluster(vec![addon("stays", AddonKind::Helm), addon("new", AddonKind::Yaml)]), PATCH);
    case.running.applied = applied(cluster(vec![addon("old", AddonKind::Helm), addon("stays", AddonKind::Helm)]));
    case
}

#[test]
fn they_come_behind_a_record_that_has_no_way_back() {
    let case = case();
    let plan = case.steps();
    let upgraded = step(&plan, "record.upgraded").expect("a record before");
    assert!(matches!(upgraded.undo, Undo::Irreversible { .. }), "{:?}", upgraded.undo);
    for id in ["addons.old.removed", "addons.stays", "addons.new"] {
        let id = format!("node1/{id}");
        assert!(before(&plan, "node1/record.upgraded", &id) && before(&plan, &id, "node1/record.applied"), "{id}");
        assert_eq!(plan.steps.iter().find(|step| step.id.0 == id).map(|step| &step.undo), Some(&Undo::RestoreBefore));
    }
    assert!(before(&plan, "node1/check.pods", "node1/record.upgraded"), "the nodes are checked first");
    assert!(before(&plan, "node1/kubernetes.helm", "node1/addons.old.removed"));
    assert!(before(&plan, "@controller/kubeconfig.operator", "node1/record.upgraded"), "a rollback keeps it, too");
    assert_eq!(written(&plan, "record.applied").kubernetes, PATCH);
    assert_eq!(names(&written(&plan, "record.applied")), ["stays", "new"]);
    assert!(case.warnings().contains("add-on old in namespace apps is not in cluster.yaml any more"));
}

#[test]
fn they_stay_where_that_is_asked_for_and_are_recorded_as_before() {
    let mut case = case();
    case.options.keep_addons = true;
    let plan = case.steps();
    assert!(!plan.steps.iter().any(|step| step.id.0.contains("/addons.")), "none is touched");
    assert!(step(&plan, "record.upgraded").is_none());
    assert_eq!(names(&written(&plan, "record.applied")), ["old", "stays"]);
    assert!(!case.warnings().contains("add-on old"));
}

#[test]
fn one_that_runtimes_have_to_know_neither_comes_nor_goes_with_an_upgrade() {
    let (web, machines) = (|| addon("web", AddonKind::Helm), crate::virtual_machines::machines);
    let of = |before: Vec<Addon>, now: Vec<Addon>| {
        let mut case = Case::with(cluster(now), PATCH);
        case.running.applied = applied(cluster(before));
        case
    };
    let comes = of(vec![web()], vec![web(), machines()]);
    assert!(comes.plan().unwrap_err().to_string().contains("do not know yet"));
    let kept = Case { options: UpgradeOptions { keep_addons: true, ..comes.options }, ..comes };
    kept.steps();
    let mut goes = of(vec![web(), machines()], vec![web()]);
    for keep_addons in [false, true] {
        goes.options.keep_addons = keep_addons;
        assert!(goes.plan().unwrap_err().to_string().contains("taking out the add-on kata-deploy"));
    }
    of(vec![web(), machines()], vec![web(), machines()]).steps();
}

#[test]
fn a_pause_comes_before_them() {
    let mut case = case();
    for pause in [PauseAfter::FirstControlPlane, PauseAfter::ControlPlanes, PauseAfter::FirstBatch] {
        case.options.pause_after = Some(pause);
        let plan = case.steps();
        assert!(!plan.steps.iter().any(|step| step.id.0.contains("/addons.") || step.id.0.contains("/record.")));
        assert!(!case.warnings().contains("add-on old"), "of this run");
    }
}

#[test]
fn without_add_ons_the_record_is_the_last_step_and_has_a_way_back() {
    let mut case = Case::of(1, 1, PATCH);
    case.running.applied = applied(sample::fleet(1, 1));
    let plan = case.steps();
    assert!(step(&plan, "record.upgraded").is_none());
    assert_eq!(step(&plan, "record.applied").map(|step| &step.undo), Some(&Undo::RestoreBefore));
}

/// A rollback stops only at a step that has changed something: what a run that upgrades a node writes is no other run's.
#[test]
fn a_run_that_upgrades_a_node_says_so_anew() {
    let mut case = case();
    let text = |case: &Case| {
        let plan = case.steps();
        let found = step(&plan, "record.upgraded").expect("a mark").ops.iter().find_map(Op::text);
        plan.texts[&found.expect("a text")].clone()
    };
    let first = text(&case);
    assert!(first.contains(&format!("\"at\": \"{}\"", super::NOW)) && first.contains(PATCH), "{first}");
    assert_eq!(text(&case), first);
    case.options.now += 60;
    assert_ne!(text(&case), first);
    // Nothing differs but the add-ons: there is no node to roll back, and nothing to say.
    assert!(step(&done().steps(), "record.upgraded").is_none());
}

/// All nodes have the bundle's version.
fn done() -> Case {
    let mut case = case();
    let target = PATCH.to_owned();
    for node in &mut case.running.nodes {
        node.kubelet.clone_from(&target);
    }
    let images = case.plan().expect("a plan").plan;
    case.running.server_version = Some(target);
    let wanted = images.steps.iter().filter_map(|step| step.probe.as_ref()).find_map(|probe| match &probe.probe {
        Probe::StaticPodsReady { images, .. } => Some(images.clone()),
        _ => None,
    });
    let wanted = wanted.expect("the images of static pods");
    for component in &mut case.running.components {
        if let Some(image) = wanted.get(&component.name) {
            component.image.clone_from(image);
        }
    }
    let plan = case.steps();
    assert!(!plan.steps.iter().any(|step| step.id.0.contains("/upgrade.apply")), "no node has a turn");
    case
}

/// A cluster on which nothing else differs: the run does what `addons apply` does.
#[test]
fn a_bundle_with_other_add_ons_alone_brings_its_helm_to_the_first_control_plane() {
    let plan = done().steps();
    assert_eq!(plan.steps.iter().filter(|step| step.id.0 == "node1/kubernetes.helm").count(), 1);
    assert!(before(&plan, "node1/kubernetes.helm", "node1/addons.old.removed"));
}

#[test]
fn what_makes_volumes_comes_with_its_folder_and_volumes_of_another_export_are_refused() {
    let mut with = cluster(Vec::new());
    with.storage.open_ebs = Some(OpenEbs::default());
    let mut case = Case::with(with, PATCH);
    case.running.applied = applied(cluster(Vec::new()));
    let plan = case.steps();
    let folders = plan.steps.iter().filter(|step| step.id.0.ends_with("/volumes.folder")).count();
    assert_eq!(folders, 3, "on every node");
    assert!(plan.steps.iter().any(|step| step.id.0 == "node1/storage.openebs"));
    case.options.keep_addons = true;
    assert!(!case.steps().steps.iter().any(|step| step.id.0.contains("/volumes.") || step.id.0.contains("/storage.")));

    let export = |path: &str| {
        let (server, path) = ("10.0.0.9".to_owned(), path.to_owned());
        let mut cluster = cluster(Vec::new());
        cluster.storage.nfs = Some(Nfs { server, path, mount_options: Vec::new(), default_class: false });
        cluster
    };
    let mut case = Case::with(export("/b"), PATCH);
    case.running.applied = applied(export("/a"));
    assert!(matches!(case.plan(), Err(RecipeError::StorageChanged { .. })));
}

#[test]
fn where_nothing_says_what_was_applied_the_operator_is_told() {
    let mut case = case();
    case.running = ClusterFacts { applied: None, ..case.running };
    assert!(case.warnings().contains("add-ons that cluster.yaml no longer has stay"), "{}", case.warnings());
    let plan = case.steps();
    assert_eq!(names(&written(&plan, "record.applied")), ["stays", "new"]);
}
