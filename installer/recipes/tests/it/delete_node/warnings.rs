//! What is said before the question.

use kubexm_plan::cluster_facts::TightBudget;
use kubexm_plan::op::EtcdSnapshot;
use kubexm_recipes::kept_snapshots;

use super::*;

/// As an upgrade leaves it.
fn with_snapshot(site: &mut Site, host: &str) {
    let ledger = site.ledgers.get_mut(host).expect("a ledger");
    let mut record = ledger[0].clone();
    (record.run, record.step) = ("upgrade".to_owned(), StepId(format!("{host}/upgrade.snapshot")));
    record.ops = vec![EtcdSnapshot { name: "before-v1.34.5".to_owned() }.into()];
    ledger.push(record);
}

#[test]
fn snapshots_that_stay_on_a_host_are_named_and_only_those() {
    let mut site = Site::of(3, 2);
    let said = |site: &Site, hosts: &[&str]| {
        let warnings = site.delete(hosts).expect("a plan").warnings;
        warnings.into_iter().filter(|text| text.contains("snapshots")).collect::<Vec<_>>()
    };
    assert_eq!(said(&site, &["node2", "node4"]), Vec::<String>::new());
    with_snapshot(&mut site, "node2");
    with_snapshot(&mut site, "node1");
    let named = said(&site, &["node2", "node4"]);
    let [one] = named.as_slice() else { panic!("{named:?}") };
    assert!(one.contains("stay on node2 (/var/lib/kubexm/snapshots/before-*.db)"), "{one}");
    assert!(one.contains("every Secret of the cluster") && one.contains("remove them there"), "{one}");
    assert_eq!(said(&site, &["node4"]), Vec::<String>::new(), "node2 does not leave");
    // A reset says it of all its hosts.
    let all = |site: &Site| {
        let hosts = site.cluster.hosts.iter().map(|host| ResetHost {
            name: &host.name,
            roles: site.cluster.roles(&host.name),
            facts: &site.facts[&host.name],
            ledger: &site.ledgers[&host.name],
        });
        kept_snapshots(&hosts.collect::<Vec<_>>())
    };
    assert!(all(&site).expect("a sentence").contains("stay on node1, node2 ("));
    // That upgrade was rolled back, and its snapshot with it.
    for host in ["node1", "node2"] {
        let ledger = site.ledgers.get_mut(host).expect("a ledger");
        let mut restored = ledger.last().expect("the snapshot").clone();
        restored.outcome = Outcome::Restored;
        ledger.push(restored);
    }
    assert_eq!(all(&site), None);
}

#[test]
fn budgets_that_let_no_pod_go_are_named_where_a_node_is_drained() {
    let mut site = Site::of(2, 2);
    site.running.tight_budgets =
        (0..13).map(|at| TightBudget { name: format!("shop/web{at}"), pods: 2, healthy: 2, wanted: 2 }).collect();
    let said = |site: &Site| {
        let warnings = site.delete(&["node4"]).expect("a plan").warnings;
        warnings.into_iter().filter(|text| text.contains("udget")).collect::<Vec<_>>()
    };
    let named = said(&site);
    assert!(named[0].contains("shop/web0 wants 2 of its 2 pods") && named[0].contains("300 s"), "{named:?}");
    assert_eq!((named.len(), named[10].as_str()), (11, "and 3 more budgets that let no pod go now"));
    // Of a node that is gone for good nothing is evicted.
    site.missing = vec!["node4".to_owned()];
    site.running.nodes.iter_mut().filter(|node| node.name == "node4").for_each(|node| node.ready = false);
    assert_eq!(said(&site), Vec::<String>::new());
}
