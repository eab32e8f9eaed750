//! `spec.storage`: charts of the catalogue that are there before any add-on, with the values of the site, listed, applied and removed like
//! add-ons.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use crate::common::{Site, text};
use insta::{Settings, assert_snapshot};
use std::collections::BTreeSet;

use kubexm_plan::cluster_facts::{AppliedCluster, applied};
use kubexm_plan::op::{HelmRelease, Op, ReleaseInput};
use kubexm_plan::{ClusterFacts, Plan, Step, StepId, Undo, lint};
use kubexm_recipes::preflight::Severity;
use kubexm_recipes::{Recipe, RecipeError, add_node, addons_apply, preflight, sample};
use kubexm_spec::cluster::{Addon, AddonKind, AddonSource, Cluster, Nfs, OpenEbs, RegistryKind, Storage};
use kubexm_spec::{ArtifactKey, ExitCode};
use serde_json::{Map, Value, json};

fn nfs() -> Nfs {
    let (server, path) = ("10.0.0.9".to_owned(), "/srv/volumes".to_owned());
    Nfs { server, path, mount_options: vec!["nfsvers=4.1".to_owned()], default_class: false }
}

fn addon(name: &str) -> Addon {
    Addon {
        name: name.to_owned(),
        kind: AddonKind::Helm,
        source: AddonSource::Path { path: format!("charts/{name}").into() },
        namespace: "apps".to_owned(),
        values: Map::new(),
        values_file: None,
        after: Vec::new(),
        secrets: Vec::new(),
    }
}

fn cluster() -> Cluster {
    let mut cluster = sample::fleet(2, 1);
    cluster.storage = Storage { open_ebs: Some(OpenEbs::default()), nfs: Some(nfs()) };
    cluster.addons = vec![addon("web")];
    cluster
}

fn without(change: impl FnOnce(&mut Cluster)) -> Cluster {
    let mut cluster = cluster();
    change(&mut cluster);
    cluster
}

fn checked(plan: Plan) -> Plan {
    let (_, warnings) = lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, Vec::new());
    plan
}

/// A cluster that was created with this cluster.yaml, as its record says.
fn running(cluster: Cluster) -> ClusterFacts {
    let plan = Site::of(cluster).create().unwrap();
    ClusterFacts { applied: Some(record(&plan)), ..ClusterFacts::default() }
}

fn record(plan: &Plan) -> AppliedCluster {
    AppliedCluster::of_config_map(&serde_json::from_str(text(plan, applied::CONFIG_MAP)).unwrap()).unwrap()
}

/// All hosts of this cluster.yaml are in the cluster.
fn site(cluster: Cluster) -> Site {
    let mut site = Site::of(cluster);
    site.join_all_but("nobody");
    site
}

fn step<'p>(plan: &'p Plan, id: &str) -> &'p Step {
    plan.step(&StepId(id.to_owned())).unwrap_or_else(|| panic!("{id}"))
}

fn release<'p>(plan: &'p Plan, id: &str) -> (&'p HelmRelease, Value) {
    let [Op::HelmRelease(release)] = step(plan, id).ops.as_slice() else { panic!("{id}") };
    let input: ReleaseInput = serde_json::from_str(&plan.texts[&release.input]).unwrap();
    (release, Value::Object(input.values))
}

/// Steps of storage and of add-ons.
fn ids(plan: &Plan) -> Vec<&str> {
    let of = |step: &'_ Step| step.id.0.contains("/storage.") || step.id.0.contains("/addons.");
    plan.steps.iter().filter(|step| of(step)).map(|step| step.id.0.split_once('/').unwrap().1).collect()
}

#[test]
fn volumes_are_there_before_the_first_add_on_and_after_the_network_and_the_clusters_dns() {
    let plan = checked(Site::of(cluster()).create().unwrap());
    assert_eq!(ids(&plan), ["storage.openebs", "storage.nfs-provisioner", "addons.web"]);
    let (openebs, nfs, web) = (
        step(&plan, "node1/storage.openebs"),
        step(&plan, "node1/storage.nfs-provisioner"),
        step(&plan, "node1/addons.web"),
    );
    assert!(openebs.after.iter().any(|id| id.0.ends_with("/check.network")), "{openebs:?}");
    assert!(openebs.after.iter().any(|id| id.0 == "node1/kubernetes.helm"), "{openebs:?}");
    assert!(!nfs.after.contains(&openebs.id), "neither waits for the other");
    assert!(web.after.contains(&openebs.id) && web.after.contains(&nfs.id), "{web:?}");
    assert!(matches!(&openebs.undo, Undo::WithParent { step } if step.0 == "node1/control-plane.init"));
    let alone = checked(Site::of(without(|cluster| cluster.addons.clear())).create().unwrap());
    let end = step(&alone, "node1/record.applied");
    assert!(end.after.contains(&openebs.id) && end.after.contains(&nfs.id), "the record says what is there");
    let again = checked(Recipe::Create.plan(&site(cluster()).cx(), &running(cluster())).unwrap().0);
    assert_eq!(step(&again, "node1/storage.openebs").undo, Undo::RestoreBefore);
}

/// Everybody may write to a volume: the way to it is root's alone, on every node, before there is a volume.
#[test]
fn nobody_but_root_gets_into_the_folder_of_volumes() {
    let plan = checked(Site::of(cluster()).create().unwrap());
    for host in ["node1", "node2", "node3"] {
        let [Op::Dir(dir)] = step(&plan, &format!("{host}/volumes.folder")).ops.as_slice() else { panic!("{host}") };
        assert_eq!((dir.path.as_str(), dir.mode), (OpenEbs::BASE_PATH, 0o700));
    }
    let apply = |cluster: Cluster, names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let plan = addons_apply(&site(cluster.clone()).cx(), &running(cluster), &names).unwrap().0;
        plan.steps.iter().filter(|step| step.id.0.ends_with("/volumes.folder")).count()
    };
    assert_eq!((apply(cluster(), &[]), apply(cluster(), &["openebs"]), apply(cluster(), &["web"])), (3, 3, 0));
    assert_eq!(apply(without(|cluster| cluster.storage.open_ebs = None), &[]), 0);
}

#[test]
fn the_plan_and_the_values() {
    let plan = checked(Site::of(cluster()).create().unwrap());
    let rendered = plan.render();
    let of_storage: Vec<&str> = rendered.split("\n\n").filter(|step| step.starts_with("node1/storage.")).collect();
    let (openebs, nfs) = (release(&plan, "node1/storage.openebs"), release(&plan, "node1/storage.nfs-provisioner"));
    assert_eq!((openebs.0.name.as_str(), openebs.0.namespace.as_str()), ("openebs", "openebs"));
    assert_eq!((nfs.0.name.as_str(), nfs.0.namespace.as_str()), ("nfs-provisioner", "nfs-provisioner"));
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/storage");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        assert_snapshot!("steps", of_storage.join("\n\n"));
        assert_snapshot!("openebs", serde_json::to_string_pretty(&openebs.1).unwrap());
        assert_snapshot!("nfs", serde_json::to_string_pretty(&nfs.1).unwrap());
    });
}

#[test]
fn every_field_reaches_the_release_and_no_other_bundle_is_needed_for_it() {
    let bundle = Site::of(cluster());
    let values = |change: fn(&mut Storage)| {
        // The bundle is that of another server and folder.
        let mut site = Site { cluster: cluster(), ..Site::of(cluster()) };
        change(&mut site.cluster.storage);
        assert_eq!(site.manifest.artifacts.len(), bundle.manifest.artifacts.len());
        let plan = checked(site.create().unwrap());
        (release(&plan, "node1/storage.openebs").1, release(&plan, "node1/storage.nfs-provisioner").1)
    };
    let (openebs, _) = values(|storage| {
        let it = storage.open_ebs.as_mut().unwrap();
        (it.base_path, it.default_class) = ("/data/volumes".to_owned(), false);
    });
    assert_eq!(openebs["hostpathClass"]["basePath"], json!("/data/volumes"));
    assert_eq!(openebs["hostpathClass"]["isDefaultClass"], json!(false));
    let (_, nfs) = values(|storage| {
        storage.open_ebs.as_mut().unwrap().default_class = false;
        let (server, path) = ("nas.example".to_owned(), "/export".to_owned());
        storage.nfs = Some(Nfs { server, path, mount_options: vec!["hard".to_owned()], default_class: true });
    });
    assert_eq!(nfs["nfs"], json!({"server": "nas.example", "path": "/export", "mountOptions": ["hard"]}));
    assert_eq!(nfs["storageClass"], json!({"name": "nfs-client", "defaultClass": true}));
}

#[test]
fn the_helper_that_starts_at_run_time_is_in_the_closed_world() {
    let mut site = Site::of(cluster());
    site.manifest.artifacts.retain(|a| a.key != ArtifactKey::FeatureImage("openebs-linux-utils".to_owned()));
    let error = site.create().unwrap_err();
    assert!(matches!(&error, RecipeError::NotInBundle { .. }), "{error}");
    assert!(error.to_string().contains("feature-image/openebs-linux-utils"), "{error}");
}

#[test]
fn without_a_registry_every_node_has_the_images_and_with_one_its_hosts_have_them() {
    let images = ["openebs/provisioner-localpv", "openebs/linux-utils", "nfs-subdir-external-provisioner"];
    let plan = checked(Site::of(without(|cluster| cluster.registry.kind = RegistryKind::None)).create().unwrap());
    for host in ["node1", "node2", "node3"] {
        for image in images {
            let loads = |step: &&Step| step.host == host && step.title.contains(image);
            assert_eq!(plan.steps.iter().filter(loads).count(), 1, "{image} on {host}");
        }
    }
    let site = Site::of(cluster());
    let plan = checked(site.create().unwrap());
    let store = step(&plan, "node1/store.fill");
    for image in images {
        let artifact = site.manifest.artifacts.iter().find(|a| a.name.contains(image)).unwrap();
        let has = |op: &Op| matches!(op, Op::Blobs(blobs) if blobs.blobs.contains_key(&artifact.digest));
        assert!(store.ops.iter().any(has), "{image}");
    }
}

#[test]
fn what_cluster_yaml_no_longer_has_is_removed_after_the_add_ons_that_may_need_it() {
    let was = running(cluster());
    let site = site(without(|cluster| {
        cluster.storage = Storage::default();
        cluster.addons.clear();
    }));
    let (plan, warnings) = Recipe::Create.plan(&site.cx(), &was).unwrap();
    let plan = checked(plan);
    assert_eq!(ids(&plan), ["addons.web.removed", "storage.nfs-provisioner.removed", "storage.openebs.removed"]);
    let [Op::ReleaseAbsent(op)] = step(&plan, "node1/storage.openebs.removed").ops.as_slice() else { panic!() };
    assert_eq!((op.name.as_str(), op.namespace.as_str()), ("openebs", "openebs"));
    assert_eq!(step(&plan, "node1/storage.openebs.removed").undo, Undo::RestoreBefore, "with a way back");
    let of_openebs = warnings.iter().find(|line| line.contains("spec.storage.openebs")).unwrap();
    for part in ["class openebs-hostpath", "volumes, claims and their data stay", "not served any more"] {
        assert!(of_openebs.contains(part), "{part}: {of_openebs}");
    }
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(record(&plan).cluster.pointer("/spec/storage").is_none());
}

#[test]
fn an_add_on_of_the_same_release_takes_its_place_without_a_removal() {
    let catalogue = AddonSource::Catalogue { name: "openebs".to_owned(), version: None };
    let moved = without(|cluster| {
        cluster.storage = Storage::default();
        cluster.addons =
            vec![Addon { source: catalogue, namespace: "openebs".to_owned(), ..addon("openebs") }, addon("web")];
    });
    let was = running(without(|cluster| cluster.storage.nfs = None));
    let (plan, warnings) = Recipe::Create.plan(&site(moved.clone()).cx(), &was).unwrap();
    assert_eq!(ids(&checked(plan)), ["addons.openebs", "addons.web"]);
    assert_eq!(warnings, Vec::<String>::new());
    let (plan, _) = Recipe::Create.plan(&site(without(|it| it.storage.nfs = None)).cx(), &running(moved)).unwrap();
    assert_eq!(ids(&checked(plan)), ["storage.openebs", "addons.web"], "and back");
}

#[test]
fn it_is_applied_and_recorded_like_an_add_on_by_its_name_too() {
    let was = running(without(|cluster| cluster.storage = Storage { open_ebs: None, nfs: Some(nfs()) }));
    let site = site(without(|cluster| cluster.storage.nfs = None));
    let apply = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        addons_apply(&site.cx(), &was, &names).map(|(plan, _)| checked(plan))
    };
    let storage = |plan: &Plan| -> Vec<String> {
        let record = record(plan);
        let storage = record.cluster.pointer("/spec/storage").and_then(Value::as_object).cloned();
        storage.unwrap_or_default().keys().cloned().collect()
    };
    let all = apply(&[]).unwrap();
    assert_eq!(ids(&all), ["storage.nfs-provisioner.removed", "storage.openebs", "addons.web"]);
    assert_eq!(storage(&all), ["openebs"]);
    let others: Vec<&str> =
        all.steps.iter().filter(|step| step.host != "node1").map(|step| step.id.0.as_str()).collect();
    let wanted = ["node2/runtime.mirrors", "node2/volumes.folder", "node3/runtime.mirrors", "node3/volumes.folder"];
    assert_eq!(
        others.iter().copied().collect::<BTreeSet<_>>(),
        BTreeSet::from(wanted),
        "no image of before came from docker.io"
    );
    let one = apply(&["openebs"]).unwrap();
    assert_eq!((ids(&one), storage(&one)), (vec!["storage.openebs"], vec!["nfs".to_owned(), "openebs".to_owned()]));
    assert!(one.steps.iter().any(|step| step.id.0 == "node1/kubernetes.helm"), "helm installs it");
    let web = apply(&["web"]).unwrap();
    assert_eq!((ids(&web), storage(&web)), (vec!["addons.web"], vec!["nfs".to_owned()]));
    let gone = apply(&["nfs-provisioner"]).unwrap();
    assert_eq!((ids(&gone), storage(&gone)), (vec!["storage.nfs-provisioner.removed"], Vec::new()));
    let error = apply(&["nfs"]).unwrap_err().to_string();
    assert!(error.contains("called nfs; there are nfs-provisioner, openebs, web"), "{error}");
}

#[test]
fn what_installs_none_leaves_its_record() {
    let was = running(cluster());
    let mut site = Site::of(without(|cluster| cluster.storage = Storage::default()));
    site.join_all_but("node3");
    let plan = checked(add_node(&site.cx(), &was, &["node3".to_owned()]).unwrap());
    assert_eq!(ids(&plan), [""; 0]);
    assert_eq!(record(&plan).cluster["spec"]["storage"], was.applied.unwrap().cluster["spec"]["storage"]);
}

#[test]
fn the_export_of_a_running_cluster_is_not_moved() {
    let was = running(cluster());
    let moved = site(without(|cluster| {
        let nfs = cluster.storage.nfs.as_mut().unwrap();
        (nfs.server, nfs.path) = ("10.0.0.10".to_owned(), "/other".to_owned());
    }));
    let refused = |error: RecipeError| {
        assert_eq!(error.exit_code(), ExitCode::Preflight);
        let said = error.to_string();
        for part in [
            "spec.storage.nfs.server is 10.0.0.10, and the cluster has 10.0.0.9",
            "spec.storage.nfs.path is /other, and the cluster has /srv/volumes",
            "nothing was changed",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    };
    refused(Recipe::Create.plan(&moved.cx(), &was).unwrap_err());
    refused(addons_apply(&moved.cx(), &was, &[]).unwrap_err());
    addons_apply(&moved.cx(), &was, &["web".to_owned()]).unwrap();
    let other = site(without(|cluster| {
        cluster.storage.nfs.as_mut().unwrap().mount_options.clear();
        cluster.storage.open_ebs.as_mut().unwrap().base_path = "/data/volumes".to_owned();
    }));
    Recipe::Create.plan(&other.cx(), &was).unwrap();
}

#[test]
fn a_node_that_cannot_mount_nfs_is_found_unless_its_package_comes() {
    let said = |site: &Site| -> Vec<(Option<String>, String)> {
        let found = preflight(&site.cx());
        let of_storage = found.into_iter().filter(|finding| finding.check == "storage");
        of_storage
            .map(|finding| {
                assert_eq!(finding.severity, Severity::Fail);
                assert!(finding.fix.contains("nfs-common") && finding.fix.contains("spec.bundle.os"), "{finding}");
                (finding.host, finding.found)
            })
            .collect()
    };
    let mut site = Site::of(without(|cluster| {
        // A host that is no node mounts nothing.
        cluster.hosts.push(sample::host("store", 19));
        cluster.role_groups.registry = vec!["store".to_owned()];
    }));
    let names: Vec<_> = said(&site).into_iter().map(|(host, _)| host.unwrap()).collect();
    assert_eq!(names, ["node1", "node2", "node3"]);
    for name in ["node1", "node2", "node3"] {
        let programs = &mut site.facts.get_mut(name).unwrap().programs;
        programs.insert("mount.nfs".to_owned(), Some("/usr/sbin/mount.nfs".to_owned()));
    }
    assert_eq!(said(&site), []);
    let packaged = Site::of(without(|cluster| cluster.bundle.os = vec!["debian-12".to_owned()]));
    assert_eq!(said(&packaged), [], "it is among the packages of the bundle");
    let plan = packaged.create().unwrap().render();
    assert!(plan.contains("nfs-common"), "{plan}");
    assert_eq!(said(&Site::of(without(|cluster| cluster.storage.nfs = None))), []);
}
