//! An etcd of the user's keeps its version and its data; the control planes are upgraded as with any other.

use kubexm_plan::StepId;

use super::*;

fn of(target: &str) -> Case {
    let yaml = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  hosts:\n  - {name: node1, address: \
                10.77.0.11}\n  - {name: node2, address: 10.77.0.12}\n  roleGroups: {master: [node1, node2]}\n  kubernetes: {version: \
                v1.34.4}\n  runtime: {version: 2.2.7}\n  etcd: {type: external, externalConfig: {endpoints: [\"https://10.0.0.5:2379\"], \
                caFile: etcd/ca.crt, certFile: etcd/client.crt, keyFrom: {env: KEY}}}\n";
    let mut case = Case::with(kubexm_spec::cluster::parse(yaml).expect("a cluster"), target);
    case.running.components.retain(|component| component.name != "etcd");
    case.running.etcd = vec![EtcdMember { version: Some("3.5.30".to_owned()), ..member("theirs") }];
    case
}

#[test]
fn no_member_is_stopped_and_no_snapshot_is_taken_of_what_is_not_the_clusters_alone() {
    let case = of(MINOR);
    let plan = case.steps();
    for id in ["upgrade.snapshot", "upgrade.member", "etcd.serve", "etcd.client"] {
        assert!(!plan.steps.iter().any(|step| step.id.0.ends_with(id)), "{id}");
    }
    assert!(before(&plan, "node1/upgrade.apply", "node1/upgrade.etcd"));
    assert!(before(&plan, "node1/upgrade.etcd", "node2/upgrade.node"));
    let step = |id: &str| plan.step(&StepId(id.to_owned())).expect("a step");
    let Some(Probe::EtcdMembersHealthy { members, unnamed: true, .. }) =
        step("node1/upgrade.etcd").probe.as_ref().map(|timed| &timed.probe)
    else {
        panic!("it is not asked")
    };
    assert_eq!(members.keys().collect::<Vec<_>>(), ["https://10.0.0.5:2379"]);
    let Some(Op::Act(Act::KubeadmUpgrade(act))) = step("node1/upgrade.apply").ops.first() else { panic!("no upgrade") };
    assert!(!act.images.contains_key("etcd"), "{:?}", act.images);
    let Undo::Irreversible { why } = &step("node1/upgrade.apply").undo else { panic!("it has a way back") };
    assert!(why.contains("a snapshot that you have taken"), "{why}");
    assert!(case.warnings().contains("no snapshot is taken"), "{}", case.warnings());
}

#[test]
fn versions_and_health_of_its_members_are_for_preflight_which_asks_its_endpoints() {
    let mut case = of(MINOR);
    // etcd's own gate is for members that this upgrade would replace; one that is no endpoint may be anywhere.
    case.running.etcd[0].version = Some("3.5.20".to_owned());
    case.running.etcd[0].healthy = false;
    case.steps();
    case.running.etcd.clear();
    let refused = case.plan().map(drop).expect_err("nobody knows its members").to_string();
    assert!(refused.contains("the members of etcd"), "{refused}");
}
