//! A backup of much data needs little memory, that of a timer too. Alone in its file: the peak is the process's.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test tells what it measured")]

#[path = "it/common.rs"]
mod common;

use std::process::Command;
use std::time::Instant;

use common::Host;
use kubexm_ops::{backup, dispatch, timers};
use kubexm_plan::backup::{BackupAnswer, BackupAsk};
use kubexm_plan::op::{KubeadmInit, Op};
use kubexm_plan::timers::{BackupConfig, ETCD_BACKUP};

/// Of etcd, in MiB; another size is measured with `KUBEXM_BACKUP_MIB`.
const MIB: u64 = 128;
/// What the process may hold, in KiB.
const MOST: u64 = 64 << 10;
const CHILD: &str = "KUBEXM_TEST_BACKUP";
/// Whether the process makes the backup of a timer.
const TIMER: &str = "KUBEXM_TEST_BACKUP_TIMER";
const DIR: &str = "/var/backups/etcd";

fn ask(host: &Host, ask: BackupAsk) -> BackupAnswer {
    backup::answer(&host.machine, &ask).unwrap_or_else(|error| panic!("{}", error.full()))
}

/// Runs only in the process that the next test starts: makes a backup and reads it to its end.
#[test]
fn child_that_makes_a_backup() {
    let Some(mib) = std::env::var(CHILD).ok().and_then(|mib| mib.parse::<u64>().ok()) else { return };
    let host = Host::fresh();
    host.ready_for_init();
    let (config, cri_socket) = ("/etc/kubexm/kubeadm.yaml".into(), "unix:///run/containerd/containerd.sock".to_owned());
    dispatch::converge(&Op::from(KubeadmInit { config, cri_socket, ignore: vec![], backup: None }), &host.machine)
        .expect("init");
    let data = std::fs::File::create(host.machine.path("/var/lib/etcd/member/snap/db")).expect("a file");
    data.set_len(mib << 20).expect("a size");
    let (name, begun) = ("lab-1".to_owned(), Instant::now());
    let recipient = age::x25519::Identity::generate().to_public().to_string();
    if std::env::var_os(TIMER).is_some() {
        let size = timed(&host, recipient);
        return peak(size, begun);
    }
    let BackupAnswer::Made { archive, .. } = ask(&host, BackupAsk::Make { name: name.clone(), recipient }) else {
        panic!("another answer")
    };
    let mut offset = 0;
    while offset < archive.size {
        let BackupAnswer::Bytes { bytes } = ask(&host, BackupAsk::Read { name: name.clone(), offset }) else {
            panic!("another answer")
        };
        offset += bytes.len() as u64;
    }
    peak(archive.size, begun);
}

/// Makes an encrypted backup of `spec.etcd.backup`, and returns its size.
fn timed(host: &Host, recipient: String) -> u64 {
    let config = BackupConfig { name: "demo".to_owned(), dir: DIR.to_owned(), keep: 1, recipients: vec![recipient] };
    host.put(&ETCD_BACKUP.config(), serde_json::to_string(&config).expect("JSON"));
    let run = timers::run(&host.machine, ETCD_BACKUP, 1_789_430_400).unwrap_or_else(|error| panic!("{}", error.full()));
    assert!(!run.failed, "{run:?}");
    let entry =
        std::fs::read_dir(host.machine.path(DIR)).expect("a folder").next().expect("a backup").expect("an entry");
    entry.metadata().expect("a size").len()
}

fn peak(size: u64, begun: Instant) {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    println!("\npeak {} {} {}", peak.trim().trim_end_matches(" kB"), size, begun.elapsed().as_millis());
}

#[test]
fn a_backup_streams() {
    streams(false);
}

#[test]
fn an_encrypted_backup_of_a_timer_streams() {
    streams(true);
}

fn streams(timer: bool) {
    let mib = std::env::var("KUBEXM_BACKUP_MIB").ok().and_then(|mib| mib.parse().ok()).unwrap_or(MIB);
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child_that_makes_a_backup", "--nocapture"])
        .env(CHILD, mib.to_string())
        .envs(timer.then_some((TIMER, "1")))
        .output()
        .expect("a process");
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("peak ")).unwrap_or_else(|| panic!("{text}"));
    let numbers: Vec<u64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
    let [peak, size, took] = numbers.as_slice() else { panic!("{line}") };
    println!("{mib} MiB of etcd: {peak} KiB held, {size} bytes, {took} ms");
    assert!(*size > mib << 20, "{size} bytes");
    assert!(*peak < MOST, "{peak} KiB were held");
}
