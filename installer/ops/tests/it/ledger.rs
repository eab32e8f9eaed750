//! The ledger: while several steps of one host run side by side, and when nothing of ours is left.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::io::Write;

use crate::common::Host;
use kubexm_ops::ledger::{Outcome, Record, SCHEMA};
use kubexm_ops::{Ledger, Wave, step};
use kubexm_plan::op::{Binary, CertificatesRenewed, Dir, Kubeconfig, PodReady, Renewal, Stamp, StaticPodStarted};
use kubexm_plan::{ClusterId, Step, StepId, Undo};
use kubexm_spec::Digest;
use kubexm_spec::cluster::RuntimeKind;

const ADMIN: &str = "/etc/kubernetes/admin.conf";
const COPY: &str = "/root/.kube/config";
const CONTROLLER_MANAGER: &str = "/etc/kubernetes/controller-manager.conf";
const THREADS: u64 = 8;
const EACH: u64 = 25;

/// Long enough that a write could be cut in two, were it not for the lock.
fn record(sequence: u64) -> Record {
    Record {
        schema: SCHEMA,
        run: "run".to_owned(),
        sequence,
        step: StepId(format!("node1/test.{sequence}")),
        ops: Vec::new(),
        undo: Undo::Nothing,
        before: Vec::new(),
        outcome: Outcome::Failed { text: format!("{sequence} ").repeat(4_000) },
    }
}

#[test]
fn no_record_of_steps_that_end_at_the_same_time_is_lost_or_torn() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ledger");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            // A value of its own for each, as agents in processes of their own have.
            let ledger = Ledger::at(path.clone());
            scope.spawn(move || {
                for number in 0..EACH {
                    ledger.append(&record(thread * EACH + number)).expect("appended");
                }
            });
        }
    });
    let mut found: Vec<Record> = Ledger::at(path).records().expect("every line is whole");
    found.sort_by_key(|record| record.sequence);
    assert_eq!(found.len() as u64, THREADS * EACH);
    for (sequence, found) in (0..).zip(found) {
        assert_eq!(found, record(sequence));
    }
}

#[test]
fn a_torn_line_is_cut_off_once_and_not_what_others_write_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = Ledger::at(folder.path().to_owned());
    ledger.append(&record(0)).expect("appended");
    let mut file = std::fs::File::options().append(true).open(folder.path().join("records.jsonl")).expect("a ledger");
    file.write_all(b"{\"schema\":1,\"run\":\"ru").expect("torn");
    std::thread::scope(|scope| {
        for sequence in 1..=THREADS {
            let ledger = &ledger;
            scope.spawn(move || ledger.append(&record(sequence)).expect("appended"));
        }
    });
    let mut found: Vec<u64> = ledger.records().expect("records").iter().map(|record| record.sequence).collect();
    found.sort_unstable();
    assert_eq!(found, (0..=THREADS).collect::<Vec<_>>());
}

#[test]
fn a_rollback_removes_the_ledger_of_a_free_host_and_keeps_that_of_an_older_cluster() {
    let marking = |run: &str, host: &Host| {
        let step = Step::on("node1", "os.stamp", "Mark the node")
            .ensure(Stamp { cluster: "lab".to_owned(), id: None, bundle: None, adopted: false })
            .ensure(Dir { path: format!("/etc/{run}"), mode: 0o755 })
            .undo(Undo::RestoreBefore)
            .build();
        let before = step::observe(&step, &host.machine).expect("a look");
        step::converge(&step, &host.machine, run, 1, &before).expect("marked");
        (step, before)
    };
    let host = Host::fresh();
    let (first, then) = marking("first", &host);
    let (again, now) = marking("again", &host);
    for (run, step, before, left) in [("again", again, now, true), ("first", first, then, false)] {
        for wave in Wave::ALL {
            step::undo(&step, &host.machine, run, 1, &before, wave).expect("undone");
        }
        assert!(!host.machine.path(format!("/etc/{run}")).exists());
        assert_eq!(host.machine.path("/var/lib/kubexm").exists(), left, "after the undo of {run}");
    }
}

#[test]
fn on_an_adopted_host_nothing_goes_on_and_nothing_is_taken_back_but_the_adoption_and_a_renewal() {
    let stamped = |run: &str, cluster: &str, adopted: bool| {
        Step::on("node1", run, "Mark the node")
            .ensure(Stamp { cluster: cluster.to_owned(), id: None, bundle: None, adopted })
            .undo(Undo::RestoreBefore)
            .build()
    };
    let host = Host::fresh();
    host.with_cluster();
    let older = Step::on("node1", "older", "Make a folder")
        .ensure(Dir { path: "/etc/older".to_owned(), mode: 0o755 })
        .undo(Undo::RestoreBefore)
        .build();
    let before = step::observe(&older, &host.machine).expect("a look");
    step::converge(&older, &host.machine, "older", 1, &before).expect("made");
    let adoption = stamped("adoption", "theirs", true);
    let unstamped = step::observe(&adoption, &host.machine).expect("a look");
    step::converge(&adoption, &host.machine, "adoption", 1, &unstamped).expect("adopted");

    let mut refused = vec![step::undo(&older, &host.machine, "older", 1, &before, Wave::Data)];
    let kubeconfig = |replaces| Kubeconfig { user: "root".to_owned(), replaces };
    let of_create = Step::on("node1", "kubeconfig.users", "A kubeconfig").ensure(kubeconfig(None));
    let of_create = of_create.undo(Undo::RestoreBefore).build();
    for other in [older, stamped("resumed", "lab", false), of_create] {
        let found = step::observe(&other, &host.machine).expect("a look");
        refused.push(step::converge(&other, &host.machine, "resumed", 2, &found));
    }
    for result in refused {
        let text = result.expect_err("it was done on an adopted host").full();
        assert!(text.contains("which was adopted"), "{text}");
    }
    assert!(host.machine.path("/etc/older").is_dir());

    let (admin, file) = (Digest::of(host.read(ADMIN)), Digest::of(host.read(CONTROLLER_MANAGER)));
    let one = |name: &str, path: &str, was| Renewal { name: name.to_owned(), path: path.to_owned(), was };
    let certificates = vec![one("controller-manager.conf", CONTROLLER_MANAGER, file), one("admin.conf", ADMIN, admin)];
    let pod = StaticPodStarted {
        pod: "kube-controller-manager".to_owned(),
        after: vec![CONTROLLER_MANAGER.to_owned()],
        reloaded: Vec::new(),
        runtime: RuntimeKind::Containerd,
        ready: PodReady::Running,
    };
    let renewal = Step::on("node1", "certs.renew", "Renew").ensure(CertificatesRenewed { certificates }).ensure(pod);
    let renewal = renewal.ensure(kubeconfig(Some(admin))).undo(Undo::RestoreBefore).build();
    host.put(COPY, host.read(ADMIN));
    let found = step::observe(&renewal, &host.machine).expect("a look");
    step::converge(&renewal, &host.machine, "renewal", 3, &found).expect("renewed");
    assert!(host.read(ADMIN).contains("renewed"));
    assert_eq!(host.read(COPY), host.read(ADMIN));
    for wave in Wave::ALL {
        step::undo(&renewal, &host.machine, "renewal", 3, &found, wave).expect("rolled back");
    }
    assert_eq!([ADMIN, COPY].map(|path| Digest::of(host.read(path))), [admin, admin]);

    let found = step::observe(&renewal, &host.machine).expect("a look");
    step::converge(&renewal, &host.machine, "again", 4, &found).expect("renewed");
    let renewed = host.read(ADMIN);
    for wave in Wave::ALL {
        step::undo(&adoption, &host.machine, "adoption", 1, &unstamped, wave).expect("undone");
    }
    assert!(!host.machine.path("/var/lib/kubexm").exists(), "with what was kept of the earlier certificates");
    assert_eq!([ADMIN, COPY].map(|path| host.read(path)), [renewed.clone(), renewed], "they are the cluster's");
}

/// An upgrade is known by the word of its plan: a `create` installs the same programs.
#[test]
fn an_upgrade_is_done_and_rolled_back_only_on_hosts_of_its_adopted_cluster() {
    let (theirs, others) = (ClusterId::from_random([1; 16]), ClusterId::from_random([2; 16]));
    let host = Host::fresh();
    host.ready_for_init();
    let digest = host.blob("a new kubeadm");
    let install = |path: &str, of_adopted| {
        let step = Step::on("node1", "upgrade.kubeadm", "Install the new kubeadm")
            .ensure(Binary { path: path.to_owned(), blob: digest, mode: 0o755 })
            .undo(Undo::RestoreBefore)
            .build();
        Step { of_adopted, ..step }
    };
    const KUBEADM: &str = "/usr/local/bin/kubeadm";
    let stamp = |id| {
        Step::on("node1", "stamp", "Mark the node")
            .ensure(Stamp { cluster: "lab".to_owned(), id: Some(id), bundle: None, adopted: true })
            .undo(Undo::RestoreBefore)
            .build()
    };
    let converge = |step: &Step, run: &str| {
        let found = step::observe(step, &host.machine).expect("a look");
        step::converge(step, &host.machine, run, 1, &found).map(|()| found)
    };
    let refused = |result: Result<Vec<kubexm_plan::ObservedState>, kubexm_ops::OpError>, words: &str| {
        let text = result.expect_err("it was done").full();
        assert!(text.contains(words), "{text}");
    };
    let upgrade = install(KUBEADM, Some(theirs));
    refused(converge(&upgrade, "early"), "this host is of none");
    let unstamped = converge(&stamp(theirs), "adoption").expect("adopted");
    for other in [
        install(KUBEADM, None),
        install(KUBEADM, Some(others)),
        install("/usr/local/bin/containerd", Some(theirs)),
        Step { of_adopted: Some(theirs), ..install_folder() },
    ] {
        refused(converge(&other, "other"), "which was adopted");
    }
    let old = host.read(KUBEADM);
    let before = converge(&upgrade, "upgrade").expect("upgraded");
    assert_eq!(host.read(KUBEADM), "a new kubeadm");
    for wave in Wave::ALL {
        step::undo(&upgrade, &host.machine, "upgrade", 1, &before, wave).expect("rolled back");
    }
    assert_eq!(host.read(KUBEADM), old);
    converge(&upgrade, "again").expect("upgraded");
    for wave in Wave::ALL {
        step::undo(&stamp(theirs), &host.machine, "adoption", 1, &unstamped, wave).expect("undone");
    }
    let gone = step::undo(&upgrade, &host.machine, "again", 1, &before, Wave::Data).expect_err("undone").full();
    assert!(gone.contains("its adoption was rolled back"), "{gone}");
    assert_eq!(host.read(KUBEADM), "a new kubeadm", "it is the cluster's");
}

fn install_folder() -> Step {
    Step::on("node1", "older", "Make a folder")
        .ensure(Dir { path: "/etc/older".to_owned(), mode: 0o755 })
        .undo(Undo::RestoreBefore)
        .build()
}

/// It may be of a cluster that was adopted.
#[test]
fn on_a_host_whose_stamp_cannot_be_read_nothing_goes_on_and_nothing_is_taken_back() {
    let host = Host::fresh();
    let folder = Step::on("node1", "older", "Make a folder")
        .ensure(Dir { path: "/etc/older".to_owned(), mode: 0o755 })
        .undo(Undo::RestoreBefore)
        .build();
    let before = step::observe(&folder, &host.machine).expect("a look");
    step::converge(&folder, &host.machine, "older", 1, &before).expect("made");
    host.put("/var/lib/kubexm/stamp.json", "{\"cluster\": ");
    for result in [
        step::undo(&folder, &host.machine, "older", 1, &before, Wave::Data),
        step::converge(&folder, &host.machine, "resumed", 2, &before),
    ] {
        let text = result.expect_err("it was done").full();
        assert!(text.contains("stamp.json") && text.contains("cannot be read"), "{text}");
    }
    assert!(host.machine.path("/etc/older").is_dir());
}
