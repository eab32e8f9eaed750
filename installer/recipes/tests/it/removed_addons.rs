//! Add-ons that cluster.yaml no longer has are removed, by what the record in the cluster says; and `addons apply` does that, and no step
//! of a host.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use crate::common::{Site, addon};
use kubexm_plan::cluster_facts::{AppliedCluster, applied};
use kubexm_plan::op::Op;
use kubexm_plan::{ClusterFacts, Pipeline, Plan, Step, Undo, lint};
use kubexm_recipes::{Recipe, addons_apply, sample};
use kubexm_spec::cluster::{Addon, AddonKind, AddonSecret, Cluster, RegistryKind, SecretSource};
use serde_json::Value;

fn with_secret(addon: Addon) -> Addon {
    let data = [("password".to_owned(), SecretSource::Env("PASSWORD".to_owned()))].into();
    Addon { secrets: vec![AddonSecret { name: "login".to_owned(), kind: "Opaque".to_owned(), data }], ..addon }
}

fn cluster(addons: Vec<Addon>) -> Cluster {
    let mut cluster = sample::fleet(2, 1);
    cluster.addons = addons;
    cluster
}

/// The record of a cluster with these add-ons.
fn running(addons: Vec<Addon>) -> ClusterFacts {
    record_of(cluster(addons))
}

fn record_of(cluster: Cluster) -> ClusterFacts {
    let plan = Site::of(cluster).create().unwrap();
    let map: Value = serde_json::from_str(crate::common::text(&plan, "kubexm-cluster")).unwrap();
    ClusterFacts { applied: Some(AppliedCluster::of_config_map(&map).unwrap()), ..ClusterFacts::default() }
}

fn site(addons: Vec<Addon>) -> Site {
    let mut site = Site::of(cluster(addons));
    site.join_all_but("nobody");
    site
}

fn checked(plan: Plan) -> Plan {
    let (_, warnings) = lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, Vec::new());
    plan
}

fn of_addons(plan: &Plan) -> Vec<&Step> {
    plan.steps.iter().filter(|step| step.id.0.contains("/addons.")).collect()
}

fn ids(plan: &Plan) -> Vec<&str> {
    of_addons(plan).iter().map(|step| step.id.0.split_once('/').unwrap().1).collect()
}

#[test]
fn what_cluster_yaml_no_longer_has_is_removed_the_last_one_first_and_told() {
    let web = with_secret(addon("web", AddonKind::Helm));
    let was = running(vec![web, addon("site", AddonKind::Yaml), addon("stays", AddonKind::Helm)]);
    let site = site(vec![addon("stays", AddonKind::Helm)]);
    let (plan, warnings) = Recipe::Create.plan(&site.cx(), &was).unwrap();
    let plan = checked(plan);
    assert_eq!(ids(&plan), ["addons.web.removed", "addons.web.secrets.removed", "addons.stays", "addons.site.removed"]);
    let all = of_addons(&plan);
    assert!(matches!(&all[3].ops[..], [Op::Manifests(op)] if op.is_removal() && op.name == "site"));
    assert!(
        matches!(&all[0].ops[..], [Op::ReleaseAbsent(op)] if (op.name.as_str(), op.namespace.as_str()) == ("web", "apps"))
    );
    assert!(all[1].after.contains(&all[0].id), "one after the other");
    assert!(all[2].after.contains(&all[1].id), "room for what is new");
    assert!(all[3].after.contains(&all[2].id), "another add-on may have its objects by then");
    assert!([&all[..2], &all[3..]].concat().iter().all(|step| step.undo == Undo::RestoreBefore), "with a way back");
    assert_eq!(warnings.len(), 2);
    assert!(
        warnings[0].contains("add-on site") && warnings[1].contains("add-on web") && warnings[1].contains("volumes"),
        "{warnings:?}"
    );
    let (again, warnings) = Recipe::Create.plan(&site.cx(), &ClusterFacts::default()).unwrap();
    assert!(!ids(&again).iter().any(|id| id.ends_with("removed")), "nothing says what was there");
    assert!(warnings[0].contains("could not be read"), "{warnings:?}");
}

#[test]
fn a_release_in_another_namespace_is_removed_before_it_is_installed_there() {
    let was = running(vec![addon("web", AddonKind::Helm), addon("site", AddonKind::Yaml)]);
    let moved = |one: Addon| Addon { namespace: "other".to_owned(), ..one };
    let site = site(vec![moved(addon("web", AddonKind::Helm)), moved(addon("site", AddonKind::Yaml))]);
    let (plan, _) = Recipe::Create.plan(&site.cx(), &was).unwrap();
    assert_eq!(ids(&checked(plan)), ["addons.web.removed", "addons.web", "addons.site"]);
}

#[test]
fn the_last_secret_of_an_add_on_goes_after_its_new_version_has_come() {
    let was = running(vec![with_secret(addon("web", AddonKind::Helm))]);
    let site = site(vec![addon("web", AddonKind::Helm)]);
    let (plan, warnings) = Recipe::Create.plan(&site.cx(), &was).unwrap();
    let plan = checked(plan);
    assert_eq!(ids(&plan), ["addons.web", "addons.web.secrets.removed"]);
    let all = of_addons(&plan);
    assert!(all[1].after.contains(&all[0].id));
    assert!(warnings[0].contains("no secrets in cluster.yaml any more"), "{warnings:?}");
}

#[test]
fn an_add_on_waits_for_those_that_it_names_and_for_no_other() {
    let mut all = vec![addon("a", AddonKind::Helm), addon("b", AddonKind::Yaml), addon("c", AddonKind::Helm)];
    all[2].after = vec!["a".to_owned()];
    let plan = checked(Site::of(cluster(all)).create().unwrap());
    let steps = of_addons(&plan);
    assert!(steps[2].after.contains(&steps[0].id) && !steps[2].after.contains(&steps[1].id));
    assert!(!steps[1].after.contains(&steps[0].id));
}

#[test]
fn applying_add_ons_brings_what_they_need_and_touches_nothing_else() {
    let was = running(vec![addon("web", AddonKind::Helm), addon("old", AddonKind::Helm)]);
    let site = site(vec![addon("web", AddonKind::Helm), addon("new", AddonKind::Yaml)]);
    let (plan, warnings) = addons_apply(&site.cx(), &was, &[]).unwrap();
    let plan = checked(plan);
    assert_eq!(plan.pipeline, Pipeline::AddonsApply);
    let names: Vec<&str> = plan.steps.iter().map(|step| step.id.0.as_str()).collect();
    assert_eq!(
        names,
        [
            "node1/store.fill",
            "node1/depot.serve",
            "node1/kubernetes.helm",
            "node1/addons.old.removed",
            "node1/addons.web",
            "node1/addons.new",
            "node1/record.applied",
        ]
    );
    assert!(warnings[0].contains("add-on old"), "{warnings:?}");
    let record =
        AppliedCluster::of_config_map(&serde_json::from_str(crate::common::text(&plan, "kubexm-cluster")).unwrap());
    let (record, last) = (record.unwrap(), was.applied.unwrap());
    let listed: Vec<&str> =
        record.cluster["spec"]["addons"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(listed, ["web", "new"]);
    assert_eq!((record.bundle, record.cluster_sha256), (last.bundle, last.cluster_sha256), "hosts are as they were");
}

#[test]
fn only_named_add_ons_are_applied_and_recorded() {
    let was = running(vec![addon("web", AddonKind::Helm), addon("old", AddonKind::Helm)]);
    let site = site(vec![addon("web", AddonKind::Helm), addon("new", AddonKind::Yaml)]);
    let apply = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        addons_apply(&site.cx(), &was, &names)
    };
    let listed = |plan: &Plan| -> Vec<String> {
        let map: Value = serde_json::from_str(crate::common::text(plan, applied::CONFIG_MAP)).unwrap();
        let record = AppliedCluster::of_config_map(&map).unwrap();
        record.cluster["spec"]["addons"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let plan = checked(apply(&["new"]).unwrap().0);
    assert_eq!((ids(&plan), listed(&plan)), (vec!["addons.new"], ["web", "new", "old"].map(str::to_owned).to_vec()));
    assert!(!plan.steps.iter().any(|step| step.id.0.ends_with("kubernetes.helm")), "YAML needs no helm");
    let plan = checked(apply(&["old"]).unwrap().0);
    assert_eq!((ids(&plan), listed(&plan)), (vec!["addons.old.removed"], vec!["web".to_owned()]));
    let error = apply(&["nginx"]).unwrap_err().to_string();
    assert!(error.contains("called nginx; there are new, old, web"), "{error}");
}

#[test]
fn add_ons_are_not_applied_to_a_cluster_that_is_not_there_or_is_another_version() {
    let all = || vec![addon("web", AddonKind::Helm)];
    let was = running(all());
    let fresh = Site::of(cluster(all()));
    assert!(addons_apply(&fresh.cx(), &was, &[]).unwrap_err().to_string().contains("kubexm-install create"));
    let site = site(all());
    let older = ClusterFacts { server_version: Some("v1.33.1".to_owned()), ..was.clone() };
    let error = addons_apply(&site.cx(), &older, &[]).unwrap_err().to_string();
    assert!(error.contains("v1.33.1") && error.contains("upgrade"), "{error}");
    // A control plane says what its version is.
    let strange = ClusterFacts { server_version: Some("v1.33.1\nall is well\u{1b}[2J".to_owned()), ..was.clone() };
    let error = addons_apply(&site.cx(), &strange, &[]).unwrap_err().to_string();
    assert!(error.contains("v1.33.1") && error.lines().count() == 1 && !error.contains('\u{1b}'), "{error:?}");
    let error = addons_apply(&site.cx(), &ClusterFacts::default(), &[]).unwrap_err().to_string();
    assert!(error.contains("no record"), "{error}");
}

#[test]
fn without_a_registry_every_node_gets_the_images() {
    let mut without = cluster(vec![addon("web", AddonKind::Helm)]);
    without.registry.kind = RegistryKind::None;
    let was = record_of(without.clone());
    let mut site = Site::of(without.clone());
    site.join_all_but("node3");
    let plan = checked(addons_apply(&site.cx(), &was, &[]).unwrap().0);
    let filled: Vec<&str> = plan.steps.iter().filter_map(|step| step.id.0.strip_suffix("/store.fill")).collect();
    assert_eq!(filled, ["node1", "node2"], "node3 has not joined yet");
    without.registry.kind = RegistryKind::Embedded;
    let mut other = Site::of(without);
    other.join_all_but("nobody");
    let error = addons_apply(&other.cx(), &was, &[]).unwrap_err().to_string();
    assert!(error.contains("another spec.registry than the cluster"), "{error}");
}

#[test]
fn what_installs_no_add_ons_leaves_their_record() {
    let was = running(vec![addon("web", AddonKind::Helm)]);
    let mut site = Site::of(cluster(vec![addon("new", AddonKind::Yaml)]));
    site.join_all_but("node3");
    let plan = kubexm_recipes::add_node(&site.cx(), &was, &["node3".to_owned()]).unwrap();
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let map: Value = serde_json::from_str(crate::common::text(&plan, applied::CONFIG_MAP)).unwrap();
    let record = AppliedCluster::of_config_map(&map).unwrap();
    assert_eq!(record.cluster["spec"]["addons"], was.applied.unwrap().cluster["spec"]["addons"]);
}

#[test]
fn the_programs_of_a_registry_are_not_replaced_by_applying_add_ons() {
    let mut with = cluster(vec![addon("web", AddonKind::Helm)]);
    with.registry.kind = RegistryKind::Registry;
    let was = record_of(with.clone());
    let mut site = Site::of(with);
    site.join_all_but("nobody");
    let plan = checked(addons_apply(&site.cx(), &was, &[]).unwrap().0);
    assert!(plan.steps.iter().any(|step| step.id.0 == "node1/registry.fill"));
    assert!(!plan.steps.iter().any(|step| step.id.0.ends_with("registry.serve")), "its program is the registry host's");
}
