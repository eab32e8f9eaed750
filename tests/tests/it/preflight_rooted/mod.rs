//! Preflight over what the real facts code reads from machines rooted in a directory: each check is made to fail, or to
//! warn, by one edit of a good host, and says which node, what was found, what is needed and how to fix it.

#![allow(clippy::expect_used, reason = "a test that cannot set itself up has failed")]

mod edits;
mod fine;
mod rows;
pub mod scene;

use std::collections::BTreeSet;

use kubexm_recipes::preflight::CHECKS;

use fine::FINE;
use rows::Row;
use scene::Scene;

#[test]
fn good_hosts_have_no_finding() {
    assert_eq!(Scene::good().findings(), []);
}

#[test]
fn each_row_finds_its_own_problem_and_no_other() {
    let wrong: Vec<String> =
        rows::all().filter_map(|row| differs(row).map(|how| format!("{}: {how}", row.what))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// How what preflight says of a row's scene is not what the row wants.
fn differs(row: &Row) -> Option<String> {
    let mut scene = Scene::good();
    (row.edit)(&mut scene);
    let findings = scene.findings();
    let [finding] = findings.as_slice() else {
        return Some(format!("one finding was to come of it: {findings:#?}"));
    };
    if (finding.severity, finding.check.as_str(), finding.host.as_deref()) != (row.severity, row.check, row.host) {
        return Some(format!("another finding came of it: {finding:?}"));
    }
    let parts =
        [("found", &finding.found, row.found), ("needed", &finding.needed, row.needed), ("fix", &finding.fix, row.fix)];
    if let Some((part, text, wanted)) = parts.into_iter().find(|(_, text, wanted)| !text.contains(wanted)) {
        return Some(format!("{part} {text:?} does not say {wanted:?}"));
    }
    let said = finding.to_string();
    let all = [row.host.unwrap_or("cluster"), row.check, row.found, row.needed, row.fix];
    all.into_iter().find(|part| !said.contains(part)).map(|part| format!("{said:?} does not say {part:?}"))
}

#[test]
fn what_looks_like_a_problem_and_is_none_has_no_finding() {
    for (what, edit) in FINE {
        let mut scene = Scene::good();
        edit(&mut scene);
        assert_eq!(scene.findings(), [], "{what}");
    }
}

#[test]
fn every_check_is_made_to_fail_by_a_row() {
    let checks: BTreeSet<&str> = CHECKS.iter().map(|check| check.name).collect();
    let rows: BTreeSet<&str> = rows::all().map(|row| row.check).collect();
    assert_eq!(checks, rows);
}

/// Ports of the design's table, by the name that the kernel's tables have for the socket.
const CONTROL_PLANE: [(&str, u16); 9] = [
    ("tcp", 6443),
    ("tcp", 2379),
    ("tcp6", 2380),
    ("tcp6", 10250),
    ("tcp", 10256),
    ("tcp6", 10257),
    ("tcp", 10259),
    ("udp", 8472),
    ("tcp", 5443),
];
/// Those that a worker has no use for.
const NOT_ON_A_WORKER: [u16; 6] = [6443, 2379, 2380, 10257, 10259, 5443];

#[test]
fn every_port_of_a_role_is_checked_and_its_holder_named() {
    for (table, port) in CONTROL_PLANE {
        let scene = Scene::good();
        for host in [scene.node1(), scene.node2()] {
            host.process(777, "other", &[4711]);
            host.listener(table, port, 4711);
        }
        let findings = scene.findings();
        let protocol = table.trim_end_matches('6');
        let found: Vec<(Option<&str>, &str)> =
            findings.iter().map(|finding| (finding.host.as_deref(), finding.found.as_str())).collect();
        let text = format!("{port}/{protocol} in use by other (pid 777)");
        let mut wanted = vec![(Some("node1"), text.as_str()), (Some("node2"), text.as_str())];
        if NOT_ON_A_WORKER.contains(&port) {
            wanted.pop();
        }
        assert_eq!(found, wanted);
    }
}

#[test]
fn an_edit_of_a_file_of_kubeadm_is_shown_below_its_finding() {
    let scene = Scene::good();
    edits::member(scene.node1(), "00000000-0000-4000-8000-00000000000a", "ca");
    edits::written_by_kubeadm(
        scene.node1(),
        "/var/lib/kubelet/config.yaml",
        "a: 1\nmaxPods: 110\n",
        "a: 1\nmaxPods: 500\n",
    );
    let shown = scene.findings()[0].to_string();
    assert!(shown.ends_with("\n     a: 1\n    -maxPods: 110\n    +maxPods: 500"), "{shown}");
}

#[test]
fn all_problems_of_all_hosts_are_reported_at_once() {
    let mut scene = Scene::good();
    scene.node1().fake("cpus", "1");
    scene.node2().remove("/usr/sbin/conntrack");
    scene.node2().put("/etc/kubernetes/kubelet.conf", "");
    scene.clocks.insert("node2", (9_000, 0));
    let findings = scene.findings();
    let reported: Vec<(&str, &str)> =
        findings.iter().map(|f| (f.check.as_str(), f.host.as_deref().unwrap_or("cluster"))).collect();
    // The clock of node2 is off from both others.
    let wanted =
        [("hardware", "node1"), ("time", "node2"), ("time", "node2"), ("programs", "node2"), ("existing", "node2")];
    assert_eq!(reported, wanted);
}
