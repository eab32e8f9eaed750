//! What of a host is in the pod network's switch.

use kubexm_plan::Facts;
use kubexm_spec::ExitCode;

use super::{a_cluster, facts, folders, host, planned};

#[test]
fn a_link_of_the_host_in_the_pod_networks_switch_is_refused_before_anything_is_stopped() {
    let mut facts = ["node1", "node2"].map(|name| facts(name, Some("demo")));
    facts[1].own_switch.links = vec!["eth1".to_owned()];
    let ledger = [folders()].into_iter().chain(a_cluster()).collect::<Vec<_>>();
    let hosts = |facts: &[Facts; 2]| {
        let hosts = vec![host("node1", "cwr", &facts[0], &ledger), host("node2", "w", &facts[1], &ledger)];
        planned(hosts).map(drop)
    };
    let error = hosts(&facts).expect_err("a link");
    assert_eq!(error.exit_code(), ExitCode::Preflight);
    let text = error.to_string();
    assert!(text.contains("node2: eth1") && text.contains("provider-networks"), "{text}");
    facts[1].own_switch.links.clear();
    assert!(hosts(&facts).is_ok());
}
