//! What a failed run takes home from a host.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use crate::common::Host;
use kubexm_ops::evidence;

#[test]
fn logs_of_the_systems_pods_are_taken_and_those_of_users_are_not() {
    let host = Host::fresh();
    host.put("/var/log/pods/kube-system_etcd-node1_u1/etcd/0.log", "no leader\n");
    host.put("/var/log/pods/kube-flannel_kube-flannel-ds-x_u2/kube-flannel/3.log", "no interface\n");
    host.put("/var/log/pods/shop_checkout-7d_u3/app/0.log", "password=hunter2\n");
    host.put("/run/kubexm-double/journal-kubexm-harbor", "cannot start\n");
    let files = evidence::collect(&host.machine);
    let text = |name: &str| files.iter().find(|(found, _)| found == name).map(|(_, text)| text.as_str());
    assert_eq!(text("pod-kube-system_etcd-node1-etcd-0.log"), Some("no leader\n"));
    assert_eq!(text("pod-kube-flannel_kube-flannel-ds-x-kube-flannel-3.log"), Some("no interface\n"));
    assert_eq!(text("journal-kubexm-harbor.log"), Some("cannot start\n"));
    assert!(!files.iter().any(|(name, text)| name.contains("shop") || text.contains("hunter2")), "{files:?}");
}
