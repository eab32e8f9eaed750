//! Fakes of hosts that share one cluster: what one of them writes, another never reads half.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use kubexm_ops::fake::RootedSystem;

use crate::common::Host;

#[test]
fn a_host_asks_while_another_changes_the_cluster() {
    let cluster = tempfile::tempdir().expect("a folder");
    let (here, there) = (Host::fresh(), Host::fresh());
    let [writer, reader] = [&here, &there].map(|host| RootedSystem::new(host.machine.root()));
    for system in [&writer, &reader] {
        system.share(cluster.path()).expect("one cluster");
    }
    let long = "x".repeat(1 << 16);
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| {
            for number in 0..300 {
                let text = format!("kind: ConfigMap\nmetadata:\n  name: one\ndata:\n  of: \"{number} {long}\"\n");
                writer.put_object(&text).expect("written");
            }
        });
        while !writes.is_finished() {
            there.machine.system().interfaces().expect("its interfaces");
            reader.nodes().expect("the cluster's nodes");
        }
    });
}
