//! Charts of cluster.yaml are releases of helm, installed when the cluster is complete.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::collections::BTreeSet;

use crate::common::Site;
use insta::{Settings, assert_snapshot};
use kubexm_plan::op::{HelmRelease, Op, ReleaseInput};
use kubexm_plan::{Plan, Step, Undo};
use kubexm_recipes::{RecipeError, sample};
use kubexm_spec::cluster::{Addon, AddonKind, AddonSecret, AddonSource, Cluster, NetworkPlugin, SecretSource};
use kubexm_spec::{ArtifactKey, Digest, ExitCode};
use serde_json::{Map, Value, json};

fn addon(name: &str, values: Value) -> Addon {
    let Value::Object(values) = values else { panic!("{values} is no map") };
    let (source, namespace) = (AddonSource::Path { path: format!("charts/{name}").into() }, "apps".to_owned());
    Addon {
        name: name.to_owned(),
        kind: AddonKind::Helm,
        source,
        namespace,
        values,
        values_file: None,
        after: Vec::new(),
        secrets: Vec::new(),
    }
}

fn cluster() -> Cluster {
    let mut cluster = sample::fleet(2, 1);
    cluster.addons = vec![addon("web", json!({"replicas": 2})), addon("metrics", json!({}))];
    cluster
}

fn release_of(op: &Op) -> Option<&HelmRelease> {
    if let Op::HelmRelease(release) = op { Some(release) } else { None }
}

pub(crate) fn releases(plan: &Plan) -> Vec<(&Step, &HelmRelease)> {
    let steps = plan.steps.iter();
    steps.filter_map(|step| Some((step, step.ops.iter().find_map(release_of)?))).collect()
}

pub(crate) fn values(plan: &Plan, release: &HelmRelease) -> Map<String, Value> {
    let input: ReleaseInput = serde_json::from_str(&plan.texts[&release.input]).unwrap();
    input.values
}

#[test]
fn charts_are_installed_side_by_side_when_the_cluster_is_complete() {
    let plan = Site::of(cluster()).checked();
    let all = releases(&plan);
    let names: Vec<&str> = all.iter().map(|(step, _)| step.id.0.as_str()).collect();
    assert_eq!(names, ["node1/addons.web", "node1/addons.metrics"]);
    let after: Vec<BTreeSet<&str>> =
        all.iter().map(|(step, _)| step.after.iter().map(|id| id.0.as_str()).collect()).collect();
    assert_eq!(after[0], after[1], "neither waits for the other");
    assert!(after[0].contains("node1/kubernetes.helm") && after[0].contains("node2/check.network"), "{after:?}");
    let record = plan.steps.iter().find(|step| step.id.0 == "node1/record.applied").unwrap();
    assert!(names.iter().all(|name| record.after.iter().any(|id| id.0 == *name)), "{record:?}");
    assert_eq!(values(&plan, all[0].1), *json!({"replicas": 2}).as_object().unwrap());
}

#[test]
fn a_release_may_name_every_image_of_the_bundle_and_what_cluster_yaml_ignores() {
    let mut cluster = cluster();
    cluster.bundle.ignore_images = vec!["not/an-image:1".to_owned()];
    let site = Site::of(cluster);
    let plan = site.checked();
    let input: ReleaseInput = serde_json::from_str(&plan.texts[&releases(&plan)[0].1.input]).unwrap();
    assert!(input.images.iter().any(|image| image.starts_with("registry.k8s.io/pause:")), "{:?}", input.images);
    assert_eq!(input.ignored, ["not/an-image:1"]);
}

#[test]
fn only_the_first_control_plane_gets_the_charts() {
    let site = Site::of(cluster());
    let plan = site.checked();
    let chart = site.manifest.artifacts.iter().find(|a| a.key == ArtifactKey::Chart("web".to_owned())).unwrap().digest;
    let has = |host: &str| {
        let ops = plan.steps.iter().filter(|step| step.host == host).flat_map(|step| &step.ops);
        ops.into_iter().any(|op| matches!(op, Op::Blobs(blobs) if blobs.blobs.contains_key(&chart)))
    };
    assert_eq!(["node1", "node2", "node3"].map(has), [true, false, false]);
}

#[test]
fn a_release_goes_with_a_new_cluster_and_goes_back_in_one_that_was_there() {
    let mut site = Site::of(cluster());
    let undo = |site: &Site| releases(&site.checked())[0].0.undo.clone();
    assert!(matches!(undo(&site), Undo::WithParent { step } if step.0 == "node1/control-plane.init"));
    site.join_all_but("nobody");
    assert_eq!(undo(&site), Undo::RestoreBefore);
}

#[test]
fn a_chart_cannot_do_without_helm() {
    let mut cluster = cluster();
    let error = {
        cluster.bundle.exclude = vec!["helm".to_owned()];
        let all = kubexm_manifests::Catalogue::embedded();
        kubexm_manifests::require(&cluster, &all).unwrap_err()
    };
    assert_eq!(error.exit_code(), ExitCode::Config);
    assert!(error.to_string().contains("helm cannot be left out, it installs chart/web, chart/metrics"), "{error}");
    cluster.addons.clear();
    let plan = Site::of(cluster).checked();
    assert!(!plan.steps.iter().any(|step| step.id.0.ends_with("kubernetes.helm")));
}

#[test]
fn what_was_not_rendered_when_the_bundle_was_built_is_refused_before_a_host_is_changed() {
    let refused = |change: fn(&mut Site)| {
        let mut site = Site::of(cluster());
        change(&mut site);
        let error = site.create().unwrap_err();
        assert!(matches!(error, RecipeError::Rendered { .. }), "{error}");
        assert_eq!(error.exit_code(), ExitCode::BundleIncomplete);
        error.to_string()
    };
    let text = refused(|site| site.cluster.addons[0].values = json!({"image": "x"}).as_object().unwrap().clone());
    assert!(text.contains("chart/web") && text.contains("image, replicas"), "{text}");
    assert!(refused(|site| site.cluster.addons[1].namespace = "other".to_owned()).contains("other"));
    assert!(refused(|site| site.charts.renderings.clear()).contains("was not rendered"));
    refused(|site| site.charts.renderings[0].source = Digest::of("another chart"));
}

#[test]
fn a_values_file_is_the_operators_own_or_the_one_that_was_rendered() {
    let mut cluster = cluster();
    cluster.addons[0].values_file = Some("web.yaml".into());
    let mut site = Site::of(cluster);
    let plan = site.checked();
    assert_eq!(values(&plan, releases(&plan)[0].1), *json!({"file": "web.yaml", "replicas": 2}).as_object().unwrap());
    let own = |text: &str| json!({"file": text}).as_object().unwrap().clone();
    site.charts.values_files.insert("web.yaml".into(), own("web.yaml"));
    site.checked();
    site.charts.values_files.insert("web.yaml".into(), own("changed"));
    assert!(site.create().unwrap_err().to_string().contains("file"));
}

#[test]
fn the_plan_of_a_cluster_with_a_chart() {
    let mut cluster = sample::cluster();
    cluster.addons = vec![addon("web", json!({"replicas": 2, "text": "a\nb"}))];
    let site = Site::of(cluster);
    let plan = site.checked();
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/chart");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("values", &plan.texts[&releases(&plan)[0].1.input]);
    });
}

#[test]
fn yaml_is_applied_as_it_is_in_the_bundle() {
    let mut cluster = cluster();
    cluster.addons = vec![Addon { kind: AddonKind::Yaml, ..addon("site", json!({})) }];
    let site = Site::of(cluster);
    let plan = site.checked();
    let step = plan.steps.iter().find(|step| step.id.0 == "node1/addons.site").unwrap();
    let [Op::Manifests(op)] = step.ops.as_slice() else { panic!("{step:?}") };
    let artifact = site.manifest.artifacts.iter().find(|a| a.key == ArtifactKey::Yaml("site".to_owned())).unwrap();
    assert_eq!((op.name.as_str(), op.namespace.as_str(), op.blob), ("site", "apps", artifact.digest));
    assert!(!step.after.iter().any(|id| id.0.ends_with("kubernetes.helm")), "it needs no helm");
}

#[test]
fn secrets_of_an_add_on_are_there_before_it_and_in_no_text_of_the_plan() {
    let mut cluster = cluster();
    let source = |name: &str| SecretSource::Env(name.to_owned());
    let data = [("username".to_owned(), source("WHO")), ("password".to_owned(), source("PASSWORD"))].into();
    let login = AddonSecret { name: "db.login".to_owned(), kind: "kubernetes.io/basic-auth".to_owned(), data };
    let data = [("license".to_owned(), SecretSource::File("secrets/license".into()))].into();
    let license = AddonSecret { name: "license".to_owned(), kind: "Opaque".to_owned(), data };
    cluster.addons[0].secrets = vec![login, license];
    let plan = Site::of(cluster).checked();
    let step = |id: &str| plan.steps.iter().find(|step| step.id.0 == id).unwrap();
    let secrets = step("node1/addons.web.secrets");
    assert!(step("node1/addons.web").after.contains(&secrets.id));
    assert!(!step("node1/addons.metrics").after.contains(&secrets.id));
    let [Op::Manifests(op)] = secrets.ops.as_slice() else { panic!("{secrets:?}") };
    assert_eq!(op.namespace, "apps");
    let fields: Vec<&str> = plan.slots.values().filter_map(|slot| slot.secret_field()).map(String::as_str).collect();
    let of = |secret: &str, key: &str| format!("spec.addons.web.secrets.{secret}.dataFrom.{key}");
    assert_eq!(fields, [of("db.login", "password"), of("db.login", "username"), of("license", "license")]);
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/addon-secrets");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let rendered = plan.render();
    let of_addon: Vec<&str> = rendered.split("\n\n").filter(|step| step.contains("/addons.web")).collect();
    settings.bind(|| {
        assert_snapshot!("steps", of_addon.join("\n\n"));
        assert_snapshot!("secrets", &plan.texts[&op.blob]);
    });
}

#[test]
fn a_networks_chart_as_an_add_on_gets_what_only_the_site_knows_and_the_user_may_say_otherwise() {
    let mut cluster = sample::fleet(2, 1);
    cluster.network.plugin = NetworkPlugin::None;
    let catalogue = |name: &str| AddonSource::Catalogue { name: name.to_owned(), version: None };
    cluster.addons = vec![
        Addon { source: catalogue("kube-ovn"), ..addon("kube-ovn", json!({})) },
        Addon {
            source: catalogue("cilium"),
            ..addon("cilium", json!({"kubeProxyReplacement": true, "k8sServicePort": 8443}))
        },
    ];
    let plan = Site::of(cluster).checked();
    let all: Vec<Value> = releases(&plan).iter().map(|(_, release)| Value::Object(values(&plan, release))).collect();
    assert_eq!(all[0]["MASTER_NODES"], json!("10.77.0.11,10.77.0.12"));
    let cilium = (&all[1]["k8sServiceHost"], &all[1]["k8sServicePort"], &all[1]["operator"]["replicas"]);
    assert_eq!(cilium, (&json!("lb.demo.kubexm.internal"), &json!(8443), &json!(2)));
}
