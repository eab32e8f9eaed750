//! Interruptions, other runs, lost machines, and records that are damaged or from later programs.

use std::fs;
use std::io::Write as _;

use kubexm_spec::ExitCode;

use super::super::case::{Act, Case, Kept};
use super::super::site::{CLUSTER, Site};
use super::{REFUSED, RESET, ROLLED_BACK, cases};

const LEDGER: &str = "/var/lib/kubexm/ledger/records.jsonl";
const ALL: &[&str] = &["/"];

fn everything_of_the_operators(s: &mut Site) {
    s.put("/etc/hosts", b"127.0.0.1 localhost\r\n127.0.1.1 node1", 0o640, 1001);
    s.put("/usr/local/bin/kubectl", "the operator's own", 0o4750, 1001);
    s.folder("/var/lib/etcd", 0o700, 998);
    s.folder("/var/lib/kubelet/plugins/mine", 0o2750, 1001);
    s.put("/etc/kubexm/notes.txt", "mine", 0o640, 1001);
    s.put("/root/.kube/config", "contexts of three other clusters", 0o600, 0);
}

fn append(s: &Site, path: std::path::PathBuf, text: &str) {
    let _ = s;
    fs::File::options().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn journal(s: &Site, text: &str) {
    append(s, s.run_folder().join("journal.jsonl"), text);
}

fn ledger(s: &Site, text: &str) {
    append(s, s.at("node1", LEDGER), text);
}

const BACK: (ExitCode, &str) = (ExitCode::Ok, "RolledBack");

cases! {
    a_crash_and_a_rollback_lose_nothing: Case {
        start: everything_of_the_operators, act: Act::CrashRollBack, ends: BACK, ..ROLLED_BACK
    };
    a_crash_a_resume_and_a_rollback_lose_nothing: Case {
        start: everything_of_the_operators, act: Act::CrashResumeRollBack, ends: BACK, ..ROLLED_BACK
    };
    a_crash_in_the_rollback_loses_nothing: Case {
        start: everything_of_the_operators, act: Act::CrashInRollback, ends: BACK, ..ROLLED_BACK
    };
    a_crash_in_a_reset_and_another_reset_lose_nothing: Case {
        start: everything_of_the_operators, act: Act::CrashInReset, ..RESET
    };
    a_reset_that_is_rolled_back_and_given_again_loses_nothing: Case {
        start: everything_of_the_operators, act: Act::ResetRolledBack, ..RESET
    };
    an_agent_that_is_killed_in_a_step_loses_nothing_with_the_rollback: Case {
        start: everything_of_the_operators, act: Act::AgentKilled, ..ROLLED_BACK
    };
    an_agent_that_is_killed_in_a_step_and_started_again_loses_nothing: Case {
        start: everything_of_the_operators, act: Act::AgentKilledReset, ..RESET
    };
    what_came_after_a_reset_is_not_removed_by_the_next: Case {
        start: everything_of_the_operators,
        act: Act::ResetTwice,
        meanwhile: |s| {
            s.put("/var/lib/etcd/member/snap/db", "an etcd of the operator's own", 0o600, 998);
            s.put("/etc/kubernetes/admin.conf", "of another cluster", 0o600, 0);
        },
        later: &["/var/lib/etcd", "/etc/kubernetes"],
        ..RESET
    };
    a_half_written_line_of_the_journal_stops_nothing: Case {
        start: everything_of_the_operators,
        act: Act::CrashRollBack,
        meanwhile: |s| journal(s, "{\"time\":\"2026-11-20T08:15"),
        ends: BACK, ..ROLLED_BACK
    };
    a_journal_of_a_later_program_is_not_guessed_at: Case {
        act: Act::CrashRollBack,
        meanwhile: |s| journal(s, "{\"time\":\"2026-11-20T08:15:02Z\",\"record\":\"teleported\"}\n"),
        later: ALL,
        ends: (ExitCode::PlanMismatch, "teleported"), ..ROLLED_BACK
    };
    a_half_written_line_of_the_ledger_stops_nothing: Case {
        start: everything_of_the_operators, meanwhile: |s| ledger(s, "{\"schema\":3,\"run\""), ..RESET
    };
    a_damaged_line_of_the_ledger_stops_a_reset_before_it_begins: Case {
        meanwhile: |s| ledger(s, "{\"schema\":3,\"run\"\n"),
        later: ALL,
        ends: (ExitCode::RunFailed, "records.jsonl, line"), ..RESET
    };
    a_ledger_of_a_later_program_stops_a_reset_before_it_begins: Case {
        meanwhile: |s| {
            let text = fs::read_to_string(s.at("node1", LEDGER)).unwrap();
            let last = text.lines().next_back().unwrap().replacen("\"schema\":3", "\"schema\":99", 1);
            ledger(s, &(last + "\n"));
        },
        later: ALL,
        ends: (ExitCode::Preflight, "its ledger has schema 99"), ..RESET
    };
    a_ledger_that_only_a_later_program_can_read_stops_a_reset_before_it_begins: Case {
        meanwhile: |s| ledger(s, "{\"schema\":99,\"undoable\":true}\n"),
        later: ALL,
        ends: (ExitCode::RunFailed, "a later version of kubexm-install"), ..RESET
    };
    a_host_that_another_run_holds_is_not_touched: Case {
        start: |s| {
            s.host("node1").put("/run/kubexm/lock", "");
            let lock = fs::File::open(s.at("node1", "/run/kubexm/lock")).unwrap();
            lock.lock().unwrap();
            s.hold(lock);
        },
        ends: (ExitCode::HostLocked, "node1 is held by another run"), ..REFUSED
    };
    a_cluster_that_another_program_works_on_is_not_touched: Case {
        act: Act::Reset,
        meanwhile: |s| {
            let home = s.home.cluster(CLUSTER);
            let lock = kubexm_engine::ClusterLock::take(&home.folder, CLUSTER, "another program").unwrap();
            s.hold(lock);
        },
        later: ALL,
        ends: (ExitCode::HostLocked, "another program"), ..RESET
    };
    a_lost_controller_loses_nothing_of_the_hosts: Case {
        start: everything_of_the_operators,
        meanwhile: |s| fs::remove_dir_all(&s.home.cluster(CLUSTER).folder).unwrap(),
        ..RESET
    };
    a_foreign_disk_mounted_since_stops_a_reset_and_keeps_its_data: Case {
        meanwhile: |s| {
            s.put("/var/lib/kubelet/pods/data", "on the disk", 0o640, 1001);
            s.mount("26 25 8:2 / /var/lib/kubelet/pods rw,noatime - ext4 /dev/sdb1 rw");
        },
        later: &["/var/lib/kubelet", "/var/lib/etcd", "/etc/kubernetes"],
        ends: (ExitCode::Preflight, "/var/lib/kubelet/pods (ext4 of /dev/sdb1)"),
        kept: Kept::These(&["/var/lib/kubelet", "/var/lib/etcd", "/etc/kubernetes"]),
        ..RESET
    };
    a_file_that_came_into_kubexms_folder_stays_after_a_reset: Case {
        meanwhile: |s| s.put("/var/lib/kubexm/backup/x", "the operator's", 0o600, 1001),
        later: &["/var/lib/kubexm/backup"],
        kept: Kept::These(&["/var/lib/kubexm/backup"]),
        ..RESET
    };
    a_failed_join_changes_nothing_on_any_host: Case {
        hosts: 2,
        start: everything_of_the_operators,
        act: Act::FailedAddNode,
        later: ALL,
        kept: Kept::These(&["/etc", "/usr", "/opt", "/root", "/srv", "/var/lib/kubelet", "/var/lib/etcd", "/var/lib/containerd"]),
        ..ROLLED_BACK
    };
    a_host_with_files_does_not_join: Case {
        hosts: 2,
        act: Act::AddNode,
        meanwhile: |s| {
            let path = s.at("node2", "/var/lib/kubelet/mine/x");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        },
        later: ALL,
        ends: (ExitCode::Preflight, "/var/lib/kubelet (mine/x)"),
        ..ROLLED_BACK
    };
    a_host_that_was_left_out_of_a_rollback_is_rolled_back_later: Case {
        hosts: 2, start: everything_of_the_operators, act: Act::RollBackWithout2, ends: BACK, ..ROLLED_BACK
    };
    a_reset_without_a_cluster_touches_nothing: Case { start: everything_of_the_operators, act: Act::OnlyReset, ..RESET };
}
