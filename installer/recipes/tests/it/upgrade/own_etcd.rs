//! The members of an etcd of kubexm's own: one after the other, before the control planes, by etcd's own rules of versions.
#![allow(clippy::panic, reason = "tests")]

use kubexm_plan::StepId;
use kubexm_plan::etcd::{CONFIG, FORMED};
use kubexm_plan::op::File;
use kubexm_recipes::preflight_before_upgrade;

use super::*;
use crate::common::text;

const MEMBERS: [&str; 3] = ["etcd1", "etcd2", "etcd3"];

/// One control plane, one worker and three members, which run this etcd.
fn of(target: &str, etcd: &str) -> Case {
    let mut cluster = sample::with_etcd();
    if let Some(kubernetes) = &mut cluster.kubernetes {
        kubernetes.version = Some(target.to_owned());
    }
    let mut site = Site::of(cluster);
    for (name, facts) in &mut site.facts {
        let (is_member, id) = (name.starts_with("etcd"), Some(sample::CLUSTER_ID));
        facts.joined = !is_member;
        facts.etcd_formed = is_member.then(|| format!("{}\n{etcd}\n", sample::CLUSTER_ID));
        facts.stamp = Some(Stamp { cluster: "demo".to_owned(), id, run: "r".to_owned(), bundle: None, adopted: false });
    }
    let mut running = running(&site.cluster);
    running.nodes.retain(|node| node.name.starts_with("node"));
    running.components.retain(|component| component.name != "etcd");
    running.etcd = MEMBERS.map(|name| EtcdMember { version: Some(etcd.to_owned()), ..member(name) }).to_vec();
    Case { site, running, options: UpgradeOptions { now: NOW, ..UpgradeOptions::default() } }
}

fn undo<'p>(plan: &'p Plan, id: &str) -> &'p Undo {
    &plan.step(&StepId(id.to_owned())).unwrap_or_else(|| panic!("no step {id}")).undo
}

#[test]
fn members_are_replaced_one_after_the_other_before_the_control_planes_and_with_their_data() {
    let plan = of(MINOR, "3.6.5").steps();
    for (one, other) in [
        ("node1/upgrade.snapshot", "etcd1/upgrade.other-members"),
        ("etcd1/upgrade.other-members", "etcd1/upgrade.member"),
        ("etcd1/upgrade.member", "etcd2/upgrade.other-members"),
        ("etcd2/upgrade.member", "etcd3/upgrade.other-members"),
        ("etcd3/upgrade.member", "node1/upgrade.preflight"),
    ] {
        assert!(before(&plan, one, other), "{one} is not before {other}");
    }
    let at = |id: &str| plan.step(&StepId(id.to_owned())).expect("a step");
    let asked = |id: &str| match at(id).probe.as_ref().map(|timed| &timed.probe) {
        Some(Probe::EtcdMembersHealthy { members, .. }) => members.keys().cloned().collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(asked("etcd2/upgrade.other-members"), ["etcd1", "etcd3"]);
    assert_eq!(asked("etcd2/upgrade.member"), MEMBERS);
    // Its data, its certificates and its folders are no part of it.
    let ops = &at("etcd2/upgrade.member").ops;
    let files: Vec<&str> = ops
        .iter()
        .filter_map(|op| if let Op::File(File { path, .. }) = op { Some(path.as_str()) } else { None })
        .collect();
    assert_eq!(files, [CONFIG, "/etc/systemd/system/kubexm-etcd.service", FORMED]);
    assert!(
        !ops.iter().any(|op| matches!(op, Op::StateDir(_) | Op::Dir(_)))
            && ops.iter().flat_map(Op::slots).next().is_none()
    );
    assert!(text(&plan, FORMED).ends_with("\n3.6.6\n"));
    // A host of etcd alone has no node.
    assert!(
        !plan.steps.iter().any(|step| step.id.0.contains("drain-etcd") || step.id.0.starts_with("etcd1/upgrade.k"))
    );
    for member in MEMBERS {
        assert_eq!(*undo(&plan, &format!("{member}/upgrade.member")), Undo::RestoreBefore);
        assert!(has(&plan, &format!("{member}/upgrade.stamp")), "it has the new bundle, and does not say so");
    }
}

#[test]
fn where_etcd_stays_the_same_no_member_is_touched_and_kubeadm_is_told_of_none() {
    let case = of(PATCH, "3.6.5");
    let plan = case.steps();
    assert!(!plan.steps.iter().any(|step| step.id.0.contains("upgrade.member") || step.id.0.contains("etcd.serve")));
    let Some(Op::Act(Act::KubeadmUpgrade(act))) =
        plan.step(&StepId("node1/upgrade.apply".to_owned())).and_then(|step| step.ops.first())
    else {
        panic!("no upgrade")
    };
    assert_eq!(act.images.keys().collect::<Vec<_>>(), ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]);
    let probe = |id: &str| {
        plan.step(&StepId(id.to_owned())).and_then(|step| step.probe.as_ref()).expect("a probe").probe.clone()
    };
    assert!(matches!(probe("node1/upgrade.static-pods"), Probe::StaticPodsReady { external_etcd: true, .. }));
    let Probe::EtcdMembersHealthy { members, ca, .. } = probe("node1/upgrade.etcd") else {
        panic!("members are not asked")
    };
    assert_eq!((members.len(), ca.as_str()), (3, "/etc/kubexm/etcd-client/ca.crt"));
    // Nothing at all: no snapshot either.
    let mut done = of(OLD, "3.6.5");
    done.running.nodes.iter_mut().for_each(|node| node.kubelet = OLD.to_owned());
    let plan = done.steps();
    assert!(!has(&plan, "node1/upgrade.snapshot") && !has(&plan, "node1/upgrade.apply"));
}

#[test]
fn a_run_that_was_killed_between_two_members_goes_on_with_the_others() {
    let mut case = of(MINOR, "3.6.5");
    case.running.etcd[0].version = Some("3.6.6".to_owned());
    let formed = |version: &str| Some(format!("{}\n{version}\n", sample::CLUSTER_ID));
    case.site.facts.get_mut("etcd1").expect("a host").etcd_formed = formed("3.6.6");
    let plan = case.steps();
    assert!(!has(&plan, "etcd1/upgrade.member") && has(&plan, "etcd2/upgrade.member"));
    // What is recorded counts, too: a create goes by that.
    case.site.facts.get_mut("etcd1").expect("a host").etcd_formed = formed("3.6.5");
    assert!(has(&case.steps(), "etcd1/upgrade.member"));
}

#[test]
fn a_bundle_with_another_etcd_alone_replaces_the_members_and_the_tools_of_control_planes() {
    let case = of(OLD, "3.6.4");
    let plan = case.steps();
    assert!(before(&plan, "node1/upgrade.snapshot", "etcd1/upgrade.member"));
    assert!(before(&plan, "etcd3/upgrade.member", "node1/kubernetes.etcd"));
    assert!(!has(&plan, "node1/upgrade.apply") && !has(&plan, "node1/upgrade.kubelet"));
}

#[test]
fn members_go_back_until_the_last_one_has_another_minor_version_and_that_is_said_before() {
    let case = of(OLD, "3.5.26");
    let plan = case.steps();
    assert_eq!(*undo(&plan, "etcd2/upgrade.member"), Undo::RestoreBefore);
    assert!(matches!(undo(&plan, "etcd3/upgrade.member"), Undo::Irreversible { .. }));
    let config = text(&plan, CONFIG);
    assert!(config.contains("watch-progress-notify-interval") && !config.contains("experimental-"), "{config}");
    let warnings = case.warnings();
    let said =
        "until the last member of etcd, that of etcd3, is replaced by etcd 3.6.5; from then on no version goes back";
    assert!(warnings.contains(said), "{warnings}");
    // All of them go back with the rest until kubeadm begins.
    assert!(of(MINOR, "3.6.5").warnings().contains("until kubeadm begins to upgrade node1"));
}

#[test]
fn etcds_rules_of_versions_are_asked_of_every_member() {
    for (target, found, says) in [
        (
            OLD,
            "3.5.24",
            "etcd's member etcd2 runs 3.5.24, and the bundle has etcd 3.6.5: before 3.6 every member must run 3.5.26",
        ),
        (
            OLD,
            "3.4.34",
            "etcd's member etcd2 runs 3.4.34, and the bundle has etcd 3.6.5: minor versions of etcd cannot be skipped",
        ),
        (
            OLD,
            "3.6.9",
            "etcd's member etcd2 runs 3.6.9, which is newer than the bundle's etcd 3.6.5, and etcd never goes back",
        ),
        (OLD, "3.7.0", "etcd's member etcd2 runs 3.7.0, which is newer"),
    ] {
        let mut case = of(target, "3.6.5");
        case.running.etcd[1].version = Some(found.to_owned());
        let refused = case.refused();
        assert!(refused.contains(says), "{refused}");
    }
}

#[test]
fn members_that_are_ill_missing_or_unknown_are_refused_by_name() {
    let mut ill = of(PATCH, "3.6.5");
    ill.running.etcd[1].healthy = false;
    assert!(
        ill.refused().contains("etcd's member etcd2 is not healthy")
            && ill.refused().contains("journalctl -u kubexm-etcd")
    );
    let mut missing = of(PATCH, "3.6.5");
    missing.running.etcd.remove(2);
    assert!(missing.refused().contains("etcd has no member on etcd3, which is in roleGroups.etcd"));
    let mut other = of(PATCH, "3.6.5");
    other.running.etcd.push(member("old"));
    assert!(other.refused().contains("etcd has a member old, which is no host of roleGroups.etcd"));
}

#[test]
fn a_host_that_has_lost_its_member_is_refused_by_preflight_and_another_version_is_not() {
    let found = |case: &Case| {
        let findings = preflight_before_upgrade(&case.site.cx());
        findings.into_iter().map(|one| one.found).filter(|found| found.contains("member of etcd")).collect::<Vec<_>>()
    };
    let mut case = of(OLD, "3.5.26");
    assert_eq!(found(&case), Vec::<String>::new());
    case.site.facts.get_mut("etcd2").expect("a host").etcd_formed = None;
    assert_eq!(found(&case), ["no member of etcd, and the cluster runs with one there"]);
}

#[test]
fn the_whole_plan_with_members_of_its_own() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../golden/upgrade");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("own-etcd", of(OLD, "3.5.26").steps().render()));
}

#[test]
fn the_id_of_a_member_that_nobody_has_asked_for_is_part_of_a_command_only_as_etcd_writes_it() {
    let with = |id: &str| {
        let mut case = of(MINOR, "3.6.5");
        case.running.etcd.push(EtcdMember { id: id.to_owned(), ..member("stray") });
        case.refused()
    };
    assert!(with("8e9e05c52164694d").contains("`member remove 8e9e05c52164694d`"));
    let refused = with("8e; curl x | sh");
    assert!(refused.contains("etcd has a member stray") && !refused.contains("curl"), "{refused}");
}
