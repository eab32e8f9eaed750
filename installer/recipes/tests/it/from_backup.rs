//! The cluster of a backup on hosts that have none: what is refused by name, and what the plan has beside that of `create`.

use kubexm_plan::backup::Archive;
use kubexm_plan::facts::Stamp;
use kubexm_plan::op::{Act, Op};
use kubexm_plan::{ClusterId, SlotProvider, Step, lint};
use kubexm_recipes::{FromBackup, RecipeError, create_from, sample};
use kubexm_spec::{Digest, ExitCode};

use crate::common::Site;

const NODES: [&str; 3] = ["node1", "node2", "old7"];

fn backup(nodes: &[String]) -> FromBackup<'_> {
    FromBackup {
        archive: Archive { sha256: Digest::of("archive"), size: 7 },
        snapshot: 7,
        cluster: "demo",
        id: sample::CLUSTER_ID,
        kubernetes: Some("v1.34.4"),
        nodes,
    }
}

fn site() -> Site {
    let site = Site::of(sample::fleet(2, 1));
    assert_eq!(site.cluster.name, "demo");
    site
}

fn problems(site: &Site, backup: &FromBackup<'_>) -> Vec<String> {
    match create_from(&site.cx(), backup) {
        Err(error @ RecipeError::CannotRestore { .. }) => {
            assert_eq!(error.exit_code(), ExitCode::Preflight);
            let RecipeError::CannotRestore { problems } = error else { unreachable!("as above") };
            problems
        }
        other => panic!("{other:?}"),
    }
}

fn is_init(step: &Step) -> bool {
    step.ops.iter().any(|op| matches!(op, Op::Act(Act::KubeadmInit(_))))
}

#[test]
fn the_plan_is_that_of_create_with_the_archive_and_an_init_that_begins_with_it() {
    let (site, nodes) = (site(), NODES.map(str::to_owned));
    let (plan, warnings) = create_from(&site.cx(), &backup(&nodes)).unwrap();
    let (plan, _) = lint::check(plan).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let (plan, create) = (plan.plan(), site.create().unwrap());
    let names = |plan: &kubexm_plan::Plan| plan.steps.iter().map(|step| step.id.0.clone()).collect::<Vec<_>>();
    let mut without = names(plan);
    without.retain(|id| id != "node1/backup.archive");
    assert_eq!(without, names(&create));
    let at = plan.steps.iter().position(is_init).unwrap();
    assert_eq!(plan.steps[at - 1].id.0, "node1/backup.archive");
    assert!(plan.steps[at].after.iter().any(|id| id.0 == "node1/backup.archive"));
    let Some(Op::Act(Act::KubeadmInit(init))) = plan.steps[at].ops.last() else { panic!("no init") };
    let from = init.from.as_ref().unwrap();
    assert_eq!((from.name.as_str(), from.peer.as_str()), ("node1", "https://10.77.0.11:2380"));
    assert!(plan.slots.values().any(|slot| matches!(slot, SlotProvider::BackupKey)));
    assert_eq!(plan.cluster_id, Some(sample::CLUSTER_ID));
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(warning.contains("old7 are not in cluster.yaml") && !warning.contains("node2"), "{warning}");
}

#[test]
fn a_backup_of_another_cluster_or_version_is_refused_by_name() {
    let site = site();
    let other = problems(&site, &FromBackup { cluster: "plant", kubernetes: Some("v1.33.1"), ..backup(&[]) });
    let [cluster, version] = other.as_slice() else { panic!("{other:?}") };
    assert!(cluster.starts_with("it is a backup of cluster plant, and cluster.yaml is of demo"), "{cluster}");
    assert!(version.contains("Kubernetes v1.33.1, and the bundle has v1.34.4"), "{version}");
    // One that could not ask does not say.
    create_from(&site.cx(), &FromBackup { kubernetes: None, ..backup(&[]) }).unwrap();
}

#[test]
fn a_host_that_has_a_cluster_is_refused_by_name() {
    let mut site = site();
    let stamp = |id| Some(Stamp { cluster: "demo".to_owned(), id, run: "r".to_owned(), bundle: None });
    for (host, id, joined) in [
        ("node1", Some(sample::CLUSTER_ID), true),
        ("node2", Some(ClusterId::from_random([9; 16])), true),
        ("node3", None, false),
    ] {
        let facts = site.facts.get_mut(host).unwrap();
        (facts.stamp, facts.joined) = (stamp(id), joined);
    }
    let found = problems(&site, &backup(&[]));
    let [own, other, prepared] = found.as_slice() else { panic!("{found:?}") };
    assert!(own.starts_with("node1 is in this cluster already") && own.contains("kubexm-install resume"), "{own}");
    assert!(other.starts_with("node2 is in another cluster"), "{other}");
    assert!(prepared.starts_with("node3 was prepared for another cluster"), "{prepared}");
    // What an interrupted run has prepared goes on.
    for facts in site.facts.values_mut() {
        (facts.stamp, facts.joined) = (stamp(Some(sample::CLUSTER_ID)), false);
    }
    create_from(&site.cx(), &backup(&[])).unwrap();
}

#[test]
fn a_full_disk_and_an_etcd_of_another_kind_are_refused_by_name() {
    let site = site();
    let large = problems(&site, &FromBackup { snapshot: u64::MAX / 2, ..backup(&[]) });
    assert!(large.iter().all(|text| text.starts_with("node1: / has ")), "{large:?}");
    let of_its_own = Site::of(sample::with_etcd());
    let refused = create_from(&of_its_own.cx(), &backup(&[])).unwrap_err().to_string();
    assert!(refused.contains("create --from-backup of a cluster with spec.etcd.type kubexm"), "{refused}");
}
