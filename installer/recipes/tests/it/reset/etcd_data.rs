//! Keys in an etcd of the user's: deleted when no API server runs any more, and before the certificate for it is removed.

use kubexm_plan::op::{Act, EtcdKeysDelete};
use kubexm_recipes::EtcdData;

use super::*;

fn planned(host_of_keys: Option<&str>) -> Plan {
    let (one, two) = (facts("node1", Some("demo")), facts("node2", Some("demo")));
    let (registry, ledger) = (facts("node3", Some("demo")), a_cluster());
    let hosts = vec![
        host("node1", "cwr", &one, &ledger),
        host("node2", "c", &two, &ledger),
        host("node3", "r", &registry, &ledger),
    ];
    let endpoints = vec!["https://10.0.0.5:2379".to_owned(), "https://10.0.0.6:2379".to_owned()];
    let etcd_data = host_of_keys.map(|host| EtcdData { host, endpoints, prefix: "/lab/registry", keys: 1234 });
    let cluster_digest = Digest::of("yaml");
    let cx = ResetContext { cluster: "demo", cluster_id: None, cluster_digest, hosts, registry_data: None, etcd_data };
    let plan = reset(&cx).expect("a plan");
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    plan
}

/// All steps that a step waits for, by way of others.
fn before<'p>(plan: &'p Plan, step: &str) -> BTreeSet<&'p str> {
    let (mut found, mut open) = (BTreeSet::new(), vec![StepId(step.to_owned())]);
    while let Some(id) = open.pop() {
        let step = plan.step(&id).expect("a step");
        for earlier in &step.after {
            if found.insert(earlier.0.as_str()) {
                open.push(earlier.clone());
            }
        }
    }
    found
}

#[test]
fn keys_are_deleted_once_every_host_has_stopped_and_before_the_certificate_goes() {
    for of in ["node1", "node2"] {
        let plan = planned(Some(of));
        let earlier = before(&plan, &format!("{of}/reset.etcd"));
        let revert = format!("{of}/reset.revert");
        for host in ["node1", "node2", "node3"] {
            for step in ["reset.stop", "reset.aside", "reset.network"] {
                assert!(earlier.contains(format!("{host}/{step}").as_str()), "{of}: {host}/{step}");
            }
            let forgets = before(&plan, &format!("{host}/reset.forget"));
            assert!(
                forgets.contains(revert.as_str()) && forgets.contains(format!("{of}/reset.etcd").as_str()),
                "{host}"
            );
        }
        assert!(!earlier.contains(revert.as_str()), "{of}");
        assert!(before(&plan, &revert).contains(format!("{of}/reset.etcd").as_str()));
        let step = plan.step(&StepId(format!("{of}/reset.etcd"))).expect("it");
        assert!(matches!(&step.undo, Undo::Irreversible { .. }));
        let endpoints = vec!["https://10.0.0.5:2379".to_owned(), "https://10.0.0.6:2379".to_owned()];
        let act = EtcdKeysDelete { endpoints, prefix: "/lab/registry".to_owned(), keys: 1234 };
        assert_eq!(step.ops.as_slice(), [Op::Act(Act::from(act))]);
    }
}

#[test]
fn without_being_asked_a_reset_deletes_no_key() {
    let plan = planned(None);
    assert!(plan.steps.iter().all(|step| !step.ops.iter().any(|op| matches!(op, Op::Act(_)))));
}

#[test]
fn the_whole_plan_reads_as_it_is_carried_out() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../golden/reset");
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!("etcd_data", planned(Some("node1")).render()));
}
