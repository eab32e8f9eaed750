//! A hardened host whose umask is 077: sshd and sudo hand it on to the agent. Alone in its file: a umask is the process's.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

#[path = "it/common/mod.rs"]
mod common;

use std::os::unix::fs::MetadataExt;

use common::Host;
use kubexm_ops::dispatch;
use kubexm_plan::op::{Dir, Op, Resolver};

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
}
