//! Members of an etcd of kubexm's leave: the API servers and kubeadm know only those that stay, before anything cannot be rolled back.

use std::collections::BTreeMap;

use kubexm_plan::op::{Act, EtcdEndpoints, EtcdServers};
use kubexm_plan::{Op, Plan, Undo, etcd, lint};
use kubexm_recipes::{RecipeError, sample};
use kubexm_spec::ExitCode;
use kubexm_spec::cluster::EtcdKind;

use super::{ID, Site, ledger};
use crate::common::member;

/// Three control planes, the first two of which have a member; another one is on a host that is nothing else.
fn site() -> Site {
    let mut site = Site::of(3, 1);
    site.cluster.etcd.kind = EtcdKind::Kubexm;
    site.cluster.hosts.push(sample::host("etcd1", 31));
    site.cluster.role_groups.etcd = ["node1", "node2", "etcd1"].map(str::to_owned).into();
    let ledger = ledger(&site.cluster, "etcd1").into_iter().filter(|record| !record.step.0.contains("join")).collect();
    site.ledgers.insert("etcd1".to_owned(), ledger);
    let mut facts = site.facts["store"].clone();
    facts.joined = false;
    site.facts.insert("etcd1".to_owned(), facts);
    for name in &site.cluster.role_groups.etcd {
        site.facts.get_mut(name).expect("a host").etcd_formed = Some(format!("{ID}\n3.6.5\n"));
    }
    let config = "kind: ClusterConfiguration\netcd:\n  external:\n    endpoints:\n";
    let urls: String = members(&site).iter().map(|url| format!("    - {url}\n")).collect();
    site.facts.get_mut("node1").expect("a host").kubeadm_config_text = Some(format!("{config}{urls}"));
    site.running.etcd = site.cluster.role_groups.etcd.iter().map(|name| member(name)).collect();
    site
}

fn members(site: &Site) -> Vec<String> {
    let url = |name: &String| format!("https://{}:2379", site.cluster.host(name).expect("a host").address);
    site.cluster.role_groups.etcd.iter().map(url).collect()
}

fn at(plan: &Plan, id: &str) -> usize {
    plan.steps.iter().position(|step| step.id.0 == id).unwrap_or_else(|| panic!("no {id} in\n{}", plan.render()))
}

/// What the steps write into files, by path and host.
fn written(plan: &Plan) -> BTreeMap<(String, String), String> {
    let files = plan.steps.iter().flat_map(|step| step.ops.iter().map(move |op| (step, op)));
    let texts = files.filter_map(|(step, op)| match op {
        Op::File(file) => Some(((step.host.clone(), file.path.clone()), plan.texts[&op.text()?].clone())),
        _ => None,
    });
    texts.collect()
}

#[test]
fn every_api_server_and_kubeadm_are_told_before_the_member_is_removed() {
    let site = site();
    let deletion = site.delete(&["etcd1"]).expect("a plan");
    let plan = &deletion.plan;
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let stay = &members(&site)[..2];
    for step in &plan.steps {
        for op in &step.ops {
            match op {
                Op::EtcdServers(EtcdServers { servers, .. }) => assert_eq!(servers, stay),
                Op::EtcdEndpoints(EtcdEndpoints { endpoints }) => assert_eq!(endpoints, stay),
                _ => {}
            }
        }
    }
    let removed = at(plan, "node1/delete.member-etcd1");
    let first = plan.steps.iter().position(|step| matches!(step.undo, Undo::Irreversible { .. }));
    assert_eq!(first, Some(removed));
    // One API server after the other.
    let order = lint::Order::of(plan);
    let servers = ["node1", "node2", "node3"].map(|name| at(plan, &format!("{name}/delete.etcd-servers")));
    assert!(order.is_earlier(servers[0], servers[1]) && order.is_earlier(servers[1], servers[2]));
    assert!(order.is_earlier(servers[2], removed) && order.is_earlier(removed, at(plan, "etcd1/reset.stop")));
    // It is no node, and nothing of it is drained.
    assert!(!plan.steps.iter().any(|step| step.id.0.contains("delete.drain") || step.id.0.contains("delete.object")));
    let written = written(plan);
    // The members that stay are not restarted: what they ignore is kept.
    for name in ["node1", "node2"] {
        let formed = &written[&(name.to_owned(), etcd::FORMED.to_owned())];
        let peers = site.cluster.role_groups.etcd.iter();
        let peers: Vec<String> = peers
            .map(|name| format!("{name}=https://{}:2380", site.cluster.host(name).expect("a host").address))
            .collect();
        assert_eq!(formed, &format!("{ID}\n3.6.5\nstarted new {}\n", peers.join(",")));
        assert!(
            !plan.steps.iter().any(|step| step.host == name && step.ops.iter().any(|op| matches!(op, Op::Unit(_))))
        );
    }
}

#[test]
fn what_a_deletion_before_has_written_down_stays() {
    let mut site = site();
    let formed = format!("{ID}\n3.6.5\nstarted existing node1=https://a:2380\n");
    site.facts.get_mut("node1").expect("a host").etcd_formed = Some(formed);
    let plan = site.delete(&["etcd1"]).expect("a plan").plan;
    assert!(!plan.steps.iter().any(|step| step.id.0 == "node1/delete.member-started"));
    assert!(plan.steps.iter().any(|step| step.id.0 == "node2/delete.member-started"));
}

#[test]
fn a_control_plane_leaves_with_its_member_and_one_without_changes_no_list() {
    let site = site();
    let plan = site.delete(&["node2"]).expect("a plan").plan;
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert!(at(&plan, "node1/delete.drain-node2") < at(&plan, "node1/delete.etcd-endpoints"));
    assert!(!plan.steps.iter().any(|step| step.id.0 == "node2/delete.etcd-servers"), "its API server goes");
    let plan = site.delete(&["node3"]).expect("a plan").plan;
    let of_etcd = |step: &kubexm_plan::Step| {
        step.ops
            .iter()
            .any(|op| matches!(op, Op::EtcdServers(_) | Op::EtcdEndpoints(_) | Op::Act(Act::MemberRemove(_))))
    };
    assert!(!plan.steps.iter().any(of_etcd));
}

#[test]
fn a_member_that_is_dead_is_removed_and_one_that_is_needed_is_not() {
    let mut dead = site();
    dead.missing.push("etcd1".to_owned());
    dead.running.etcd[2].healthy = false;
    let plan = dead.delete(&["etcd1"]).expect("a plan").plan;
    assert!(at(&plan, "node3/delete.etcd-servers") < at(&plan, "node1/delete.member-etcd1"));
    assert!(!plan.steps.iter().any(|step| step.host == "etcd1"));
    let refused = |site: &Site, hosts: &[&str]| {
        let error = site.delete(hosts).err().unwrap_or_else(|| panic!("{hosts:?} is not refused"));
        (error.exit_code(), error.to_string())
    };
    let mut down = site();
    down.running.etcd[2].healthy = false;
    let (code, text) = refused(&down, &["node2"]);
    assert!(code == ExitCode::Preflight && text.contains("etcd would lose its quorum"), "{text}");
    let (code, text) = refused(&site(), &["node1", "node2", "etcd1"]);
    assert!(code == ExitCode::Preflight && text.contains("no member of etcd would be left"), "{text}");
    let mut blind = site();
    blind.running.etcd.clear();
    let error = blind.delete(&["etcd1"]).unwrap_err();
    assert!(matches!(error, RecipeError::Unobserved { .. }), "{error}");
    // A member that works, and that is only not reached from here.
    let mut away = site();
    away.missing.push("etcd1".to_owned());
    let (_, text) = refused(&away, &["etcd1"]);
    assert!(text.contains("it works as a member of the cluster"), "{text}");
}

#[test]
fn a_host_that_is_deleted_already_costs_nothing() {
    let mut site = site();
    site.clean("etcd1");
    site.facts.get_mut("etcd1").expect("a host").etcd_formed = None;
    let plan = site.delete(&["etcd1"]).expect("a plan").plan;
    assert_eq!(plan.steps.len(), 0, "{}", plan.render());
}
