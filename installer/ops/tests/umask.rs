//! A hardened host whose umask is 077: sshd and sudo hand it on to the agent. Alone in its file: a umask is the process's.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

#[path = "it/common.rs"]
mod common;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use common::Host;
use kubexm_ops::dispatch;
use kubexm_plan::op::{Blobs, Dir, Op, Resolver};

#[test]
fn folders_that_services_of_other_users_read_are_open_to_them() {
    let host = Host::fresh();
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let link = host.machine.path("/etc/resolv.conf");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink("../run/systemd/resolve/stub-resolv.conf", link).expect("a link");
    for op in [
        // systemd-resolved reads it as a user of its own.
        Op::from(Resolver { nameservers: vec!["10.0.0.53".into()] }),
        Dir { path: "/opt/cni/bin".into(), mode: 0o755 }.into(),
    ] {
        dispatch::converge(&op, &host.machine).expect("converge");
    }
    for folder in ["/etc/systemd/resolved.conf.d", "/opt/cni", "/opt/cni/bin"] {
        let mode = host.machine.path(folder).metadata().expect("a folder").mode() & 0o777;
        assert_eq!(mode, 0o755, "{folder}: {mode:o}");
    }

    // The depot reads the content store as a user of its own; an agent under this umask wrote it.
    let _ = std::fs::remove_dir_all(host.machine.path("/var/lib/kubexm"));
    let blob = host.blob("a layer");
    let path = host.machine.blob(&blob);
    assert_eq!(path.metadata().expect("a blob").mode() & 0o777, 0o600, "the umask is in force");
    let op = Op::from(Blobs { blobs: BTreeMap::from([(blob, 7)]), depots: None, shared_at: None });
    let found = dispatch::observe(&op, &host.machine).expect("observe");
    assert!(!found.satisfied, "nobody but root may read it");
    dispatch::converge(&op, &host.machine).expect("converge");
    for folder in path.ancestors().skip(1).take(4) {
        assert_eq!(folder.metadata().expect("a folder").mode() & 0o777, 0o755, "{}", folder.display());
    }
    assert_eq!(path.metadata().expect("a blob").mode() & 0o777, 0o644);
    let found = dispatch::observe(&op, &host.machine).expect("observe");
    assert!(found.satisfied, "a second run changes nothing");
}
