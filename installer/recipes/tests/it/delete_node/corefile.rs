//! The Corefile of nodes without a resolver, when one of them leaves.

use std::net::IpAddr;

use kubexm_plan::Plan;
use kubexm_plan::op::KubeObject;

use super::*;

fn servers(of: &[u8]) -> Option<Vec<IpAddr>> {
    Some(of.iter().map(|last| IpAddr::from([10, 0, 0, *last])).collect())
}

/// Whose Corefile forwards to 10.0.0.1 and 10.0.0.2: node3 has no resolver, the others one or the other.
fn site() -> Site {
    let mut site = Site::of(1, 3);
    site.running.server_version = Some("v1.34.4".to_owned());
    for (host, own) in [("node1", vec![1]), ("node2", vec![2]), ("node3", vec![]), ("node4", vec![1])] {
        site.facts.get_mut(host).expect("a host").nameservers = servers(&own);
    }
    let first = site.ledgers.get_mut("node1").expect("a ledger");
    let mut record = first[0].clone();
    record.step = StepId("node1/dns.corefile".to_owned());
    record.ops = vec![KubeObject::new("coredns", Digest::of("with two servers")).into()];
    first.push(record);
    site
}

/// What CoreDNS forwards to, as the plan writes it.
fn forwards(plan: &Plan) -> Option<String> {
    let step = plan.step(&StepId("node1/delete.corefile".to_owned()))?;
    let text = plan.texts.get(&step.ops[0].text().expect("a text")).expect("its text");
    let line = text.lines().map(str::trim).find(|line| line.starts_with("forward ") || line.starts_with("rcode "));
    line.map(str::to_owned)
}

#[test]
fn names_are_not_asked_for_at_the_resolver_of_a_host_that_has_left() {
    let site = site();
    let plan = |hosts: &[&str]| {
        let plan = site.delete(hosts).expect("a plan").plan;
        lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
        plan
    };
    let left = plan(&["node2"]);
    assert_eq!(forwards(&left).as_deref(), Some("forward . 10.0.0.1"));
    let at = |id: &str| left.steps.iter().position(|step| step.id.0 == id).expect("a step");
    assert!(at("node1/delete.drain-node2") < at("node1/delete.corefile"));
    assert!(at("node1/delete.corefile") < at("node2/reset.stop"));
    assert_eq!(left.steps[at("node1/delete.corefile")].undo, Undo::RestoreBefore);
    // These change nothing of it.
    assert_eq!(forwards(&plan(&["node3"])), None);
    assert_eq!(forwards(&plan(&["node4"])), None);
}

#[test]
fn it_is_what_create_writes_for_the_nodes_that_stay_and_stays_where_kubexm_has_written_none() {
    let mut site = site();
    let plan = site.delete(&["node2"]).expect("a plan").plan;
    let step = plan.step(&StepId("node1/delete.corefile".to_owned())).expect("a step");
    let mut cluster = site.cluster.clone();
    cluster.hosts.retain(|host| host.name != "node2");
    cluster.role_groups.worker.retain(|name| name != "node2");
    let mut made = crate::common::Site::of(cluster);
    for (host, facts) in &mut made.facts {
        facts.nameservers.clone_from(&site.facts[host].nameservers);
    }
    let create = made.create().expect("a plan");
    let of_create = create.step(&StepId("node1/dns.corefile".to_owned())).expect("a step");
    assert_eq!(of_create.ops, step.ops);
    // Whichever host has written it last: the step finds out whether it is so already.
    let written = step.ops.clone();
    site.ledgers.get_mut("node1").expect("a ledger").last_mut().expect("a record").ops = written;
    assert_eq!(forwards(&site.delete(&["node2"]).expect("a plan").plan).as_deref(), Some("forward . 10.0.0.1"));
    site.ledgers.get_mut("node1").expect("a ledger").pop();
    assert_eq!(forwards(&site.delete(&["node2"]).expect("a plan").plan), None);
}

#[test]
fn of_a_host_that_is_gone_for_good_nobody_knows_the_resolver() {
    let mut site = site();
    site.missing = vec!["node2".to_owned()];
    site.running.nodes.iter_mut().filter(|node| node.name == "node2").for_each(|node| node.ready = false);
    let plan = site.delete(&["node2"]).expect("a plan").plan;
    assert_eq!(forwards(&plan).as_deref(), Some("forward . 10.0.0.1"));
    // Nothing of it is left, and what the file has is not its doing.
    site.running.nodes.retain(|node| node.name != "node2");
    assert_eq!(forwards(&site.delete(&["node2"]).expect("a plan").plan), None);
}
