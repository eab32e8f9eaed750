//! What went wrong on somebody's site, op by op.

#![allow(clippy::expect_used, clippy::panic, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::common::{self, Host, archive};
use kubexm_ops::ledger::Outcome;
use kubexm_ops::{ActContext, FaultPoint, Faults, Machine, OpError, Wave, dispatch, probe, step};
use kubexm_plan::op::{
    Binary, Content, File, Hostname, HostsBlock, KubeadmInit, Op, Resolver, Stamp, SwapOff, Sysctl, Unit, Unpacked,
};
use kubexm_plan::{Probe, SlotName, Step, StepId, Undo};
use kubexm_spec::Digest;
use kubexm_spec::cluster::RuntimeKind;

mod kubeadm_init;

const DROP_IN: &str = "/etc/sysctl.d/99-kubexm-cri.conf";

fn satisfied(op: &Op, machine: &Machine) -> bool {
    dispatch::observe(op, machine).expect("observe").satisfied
}

fn text_of(result: Result<(), OpError>) -> String {
    result.expect_err("an error").full()
}

fn forwarding() -> Op {
    let values = BTreeMap::from([("net.ipv4.ip_forward".to_owned(), "1".to_owned())]);
    Sysctl { path: DROP_IN.into(), values, remembered: BTreeSet::new() }.into()
}

#[test]
fn a_hardened_sysctl_conf_that_wins_at_boot_is_named_with_its_line() {
    let host = Host::fresh();
    host.put("/etc/sysctl.conf", "# hardening\n-net/ipv4/ip_forward = 0\n");
    std::os::unix::fs::symlink("../sysctl.conf", host.machine.path("/etc/sysctl.d/99-sysctl.conf")).expect("a link");
    host.put("/proc/sys/net/ipv4/ip_forward", "1\n");
    let before = host.tree();
    assert!(!satisfied(&forwarding(), &host.machine));
    let text = text_of(dispatch::converge(&forwarding(), &host.machine));
    assert!(text.contains("/etc/sysctl.d/99-sysctl.conf:2 sets net.ipv4.ip_forward = 0"), "{text}");
    assert_eq!(host.tree(), before, "it was refused after a change");
}

#[test]
fn an_earlier_sysctl_file_and_a_hidden_one_do_not_count() {
    let host = Host::fresh();
    host.put("/usr/lib/sysctl.d/50-default.conf", "net.ipv4.ip_forward=0\n");
    host.put("/usr/lib/sysctl.d/99-zz.conf", "net.ipv4.ip_forward=0\n");
    host.put("/etc/sysctl.d/99-zz.conf", "# hides the one of the distribution\n");
    dispatch::converge(&forwarding(), &host.machine).expect("converge");
    assert!(satisfied(&forwarding(), &host.machine));
}

#[test]
fn a_live_value_that_somebody_changed_is_seen_though_the_file_is_right() {
    let host = Host::fresh();
    dispatch::converge(&forwarding(), &host.machine).expect("converge");
    host.put("/proc/sys/net/ipv4/ip_forward", "0\n");
    assert!(!satisfied(&forwarding(), &host.machine));
}

#[test]
fn a_parameter_of_a_module_that_is_not_loaded_is_explained() {
    let host = Host::fresh();
    let values = BTreeMap::from([("net.bridge.bridge-nf-call-iptables".to_owned(), "1".to_owned())]);
    let text = text_of(dispatch::converge(
        &Sysctl { path: DROP_IN.into(), values, remembered: BTreeSet::new() }.into(),
        &host.machine,
    ));
    assert!(text.contains("module it belongs to is not loaded"), "{text}");
}

#[test]
fn swap_that_comes_back_at_boot_is_seen_when_none_is_on() {
    let host = Host::fresh();
    host.put("/proc/swaps", "Filename Type Size Used Priority\n");
    assert!(!satisfied(&SwapOff {}.into(), &host.machine));
    std::fs::remove_file(host.machine.path("/proc/swaps")).expect("hidden");
    host.put("/etc/fstab", "UUID=aaaa / ext4 defaults 0 1\n# UUID=bbbb none swap sw 0 0\n");
    assert!(satisfied(&SwapOff {}.into(), &host.machine));
}

#[test]
fn a_restart_lost_in_a_crash_is_made_by_the_next_run() {
    let mut host = Host::fresh();
    host.unit("a.service", "/usr/local/bin/a");
    let loaded = vec!["/etc/a.conf".to_owned()];
    let unit =
        Op::from(Unit { name: "a.service".into(), enabled: true, running: Some(true), loaded, reloaded: Vec::new() });
    let first = Op::from(host.file("/etc/a.conf", "one\n"));
    dispatch::converge(&first, &host.machine).expect("file");
    dispatch::converge(&unit, &host.machine).expect("unit");
    assert!(satisfied(&unit, &host.machine));
    // The run died here: the new configuration is on the disk, and the service has the old one.
    let second = Op::from(host.file("/etc/a.conf", "two\n"));
    dispatch::converge(&second, &host.machine).expect("file");
    assert!(!satisfied(&unit, &host.machine), "a service with an old configuration passed for current");
    dispatch::converge(&unit, &host.machine).expect("unit");
    assert!(satisfied(&unit, &host.machine));
}

#[test]
fn a_unit_is_reloaded_for_files_it_can_take_over_and_started_anew_for_others() {
    let mut host = Host::fresh();
    host.unit("a.service", "/usr/local/bin/a");
    let unit = host
        .read("/etc/systemd/system/a.service")
        .replace("[Install]", "ExecReload=/bin/kill -HUP $MAINPID\n[Install]");
    host.put("/etc/systemd/system/a.service", unit);
    let op = |loaded: &str, reloaded: &str| {
        let (loaded, reloaded) = (vec![loaded.to_owned()], vec![reloaded.to_owned()]);
        Op::from(Unit { name: "a.service".into(), enabled: true, running: Some(true), loaded, reloaded })
    };
    let unit = op("/etc/a.args", "/etc/a.d");
    let invocation = |host: &Host| {
        let found = dispatch::observe(&unit, &host.machine).expect("a look");
        found.state::<Unit>().expect("its state").invocation
    };
    let write = |host: &mut Host, path: &str, text: &str| {
        dispatch::converge(&Op::from(host.file(path, text)), &host.machine).expect("file");
    };
    for (path, text) in [("/etc/a.args", "one"), ("/etc/a.d/1.conf", "one")] {
        write(&mut host, path, text);
    }
    dispatch::converge(&unit, &host.machine).expect("unit");
    let first = invocation(&host);
    write(&mut host, "/etc/a.d/2.conf", "two");
    assert!(!satisfied(&unit, &host.machine), "what it has not taken over passed for current");
    dispatch::converge(&unit, &host.machine).expect("unit");
    assert!(satisfied(&unit, &host.machine));
    assert_eq!(invocation(&host), first, "a reload is no new start");
    write(&mut host, "/etc/a.args", "two");
    dispatch::converge(&unit, &host.machine).expect("unit");
    let second = invocation(&host);
    assert_ne!(second, first, "a reload does not change how it was started");
    assert!(satisfied(&unit, &host.machine));
    // A unit that has no ExecReload= is a fault of the plan, and is not passed over.
    host.unit("a.service", "/usr/local/bin/a");
    dispatch::converge(&unit, &host.machine).expect("unit");
    write(&mut host, "/etc/a.d/2.conf", "three");
    let text = text_of(dispatch::converge(&unit, &host.machine));
    assert!(text.contains("reload is not applicable"), "{text}");
}

#[test]
fn what_systemd_starts_after_a_crash_runs_with_files_that_had_not_changed_until_then() {
    let host = Host::fresh();
    host.unit("a.service", "/usr/local/bin/a");
    let text = host.read("/etc/systemd/system/a.service");
    host.put("/etc/systemd/system/a.service", text.replace("[Install]", "ExecReload=/bin/true\n[Install]"));
    host.put("/etc/a.conf", "one");
    let (loaded, reloaded) = (vec!["/etc/systemd/system/a.service".to_owned()], vec!["/etc/a.conf".to_owned()]);
    let unit = Op::from(Unit { name: "a.service".into(), enabled: true, running: Some(true), loaded, reloaded });
    let invocation = |host: &Host| {
        let found = dispatch::observe(&unit, &host.machine).expect("a look");
        found.state::<Unit>().expect("its state").invocation
    };
    let crash = |host: &Host| {
        std::thread::sleep(std::time::Duration::from_millis(1100));
        host.machine
            .run(&kubexm_ops::system::Program::new("systemctl").args(["restart", "a.service"]))
            .expect("started again");
    };
    dispatch::converge(&unit, &host.machine).expect("unit");
    let first = invocation(&host);
    crash(&host);
    let second = invocation(&host);
    assert_ne!(first, second);
    assert!(satisfied(&unit, &host.machine), "it would be started anew without a reason");
    // Other settings are read by a reload: the process goes on.
    host.put("/etc/a.conf", "two");
    assert!(!satisfied(&unit, &host.machine));
    dispatch::converge(&unit, &host.machine).expect("unit");
    assert_eq!(invocation(&host), second);
    // It may have been started with what was there for a while.
    host.put("/etc/a.conf", "three");
    crash(&host);
    host.put("/etc/a.conf", "two");
    assert!(!satisfied(&unit, &host.machine));
}

#[test]
fn systemd_forgets_a_unit_that_failed_when_its_file_is_taken_away() {
    let host = Host::fresh();
    let unit = Op::from(Unit {
        name: "a.service".into(),
        enabled: true,
        running: Some(true),
        loaded: Vec::new(),
        reloaded: Vec::new(),
    });
    let before = dispatch::observe(&unit, &host.machine).expect("observe");
    host.put("/etc/systemd/system/a.service", "[Service]\nExecStart=/usr/local/bin/absent\n[Install]\n");
    dispatch::converge(&unit, &host.machine).expect_err("no program");
    let state = || host.read("/run/kubexm-double/state.json");
    assert!(state().contains("failed"), "{}", state());
    dispatch::restore(&unit, &host.machine, &before, Wave::Stop).expect("restored");
    assert!(!state().contains("failed"), "{}", state());
}

#[test]
fn a_unit_without_its_program_is_refused_by_the_fake() {
    let host = Host::fresh();
    host.put("/etc/systemd/system/a.service", "[Service]\nExecStart=/usr/local/bin/absent\n[Install]\n");
    let unit =
        Unit { name: "a.service".into(), enabled: true, running: Some(true), loaded: vec![], reloaded: Vec::new() };
    let text = text_of(dispatch::converge(&unit.into(), &host.machine));
    assert!(text.contains("203/EXEC"), "{text}");
}

#[test]
fn a_blob_that_does_not_match_its_name_is_never_installed() {
    let host = Host::fresh();
    let blob = Digest::of("wanted");
    host.put(&format!("/var/lib/kubexm/store/blobs/sha256/{}", blob.hex()), "flipped");
    let op = Op::from(Binary { path: "/usr/local/bin/tool".into(), blob, mode: 0o755 });
    assert!(text_of(dispatch::converge(&op, &host.machine)).contains("digest"));
    assert!(!host.machine.path("/usr/local/bin/tool").exists());
    assert!(!host.machine.blob(&blob).exists(), "the bad blob would be found again");
}

#[test]
fn an_archive_that_leads_out_of_itself_or_lacks_a_member_is_refused() {
    let host = Host::fresh();
    let blob = host.blob(archive(&[("bin/a", "a")]));
    let members = BTreeMap::from([("bin/b".to_owned(), "/usr/local/bin/b".to_owned())]);
    let op = Op::from(Unpacked { blob, members, all_into: None });
    let text = dispatch::observe(&op, &host.machine).expect_err("an error").full();
    assert!(text.contains("no regular file bin/b") && text.contains("bin/a"), "{text}");
}

#[test]
fn an_archive_with_a_header_that_would_fill_the_memory_is_refused() {
    let host = Host::fresh();
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let name = vec![b'a'; 2 << 20];
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(name.len() as u64);
    header.set_cksum();
    tar.append(&header, name.as_slice()).expect("a long name");
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    tar.append_data(&mut header, "bin/a", b"a".as_slice()).expect("a member");
    let blob = host.blob(tar.into_inner().expect("tar").finish().expect("gzip"));
    let members = BTreeMap::from([("bin/a".to_owned(), "/usr/local/bin/a".to_owned())]);
    let op = Op::from(Unpacked { blob, members, all_into: None });
    let text = dispatch::observe(&op, &host.machine).expect_err("an error").full();
    assert!(text.contains("headers of a member have more than"), "{text}");
}

#[test]
fn an_archive_that_was_observed_once_is_not_needed_again() {
    let host = Host::fresh();
    let blob = host.blob(archive(&[("bin/a", "a")]));
    let members = BTreeMap::from([("bin/a".to_owned(), "/usr/local/bin/a".to_owned())]);
    let op = Op::from(Unpacked { blob, members, all_into: None });
    dispatch::converge(&op, &host.machine).expect("converge");
    std::fs::remove_file(host.machine.blob(&blob)).expect("gone");
    assert!(satisfied(&op, &host.machine));
    host.put("/usr/local/bin/a", "changed");
    assert!(!satisfied(&op, &host.machine));
}

#[test]
fn an_archive_that_changes_after_it_was_observed_installs_nothing_and_is_removed() {
    let host = Host::fresh();
    let blob = host.blob(archive(&[("bin/a", "a")]));
    let members = BTreeMap::from([("bin/a".to_owned(), "/usr/local/bin/a".to_owned())]);
    let op = Op::from(Unpacked { blob, members, all_into: None });
    assert!(!satisfied(&op, &host.machine));
    std::fs::write(host.machine.blob(&blob), archive(&[("bin/a", "b")])).expect("other bytes");
    let text = text_of(dispatch::converge(&op, &host.machine));
    assert!(text.contains("run again, and it is sent once more"), "{text}");
    assert!(!host.machine.path("/usr/local/bin/a").exists() && !host.machine.blob(&blob).exists());
}

#[test]
fn a_slots_value_is_compared_and_stays_out_of_state_and_debug_output() {
    let host = Host::fresh();
    let slot = SlotName("key".into());
    let machine = host.machine.with_slots(BTreeMap::from([(slot.clone(), b"s3cret".to_vec())]));
    let op = Op::from(File { path: "/etc/key".into(), content: Content::Slot { slot }, mode: 0o600 });
    dispatch::converge(&op, &machine).expect("converge");
    let found = dispatch::observe(&op, &machine).expect("observe");
    assert!(found.satisfied);
    assert!(!format!("{machine:?}{found:?}").contains("s3cret"));
    host.put("/etc/key", "other");
    assert!(!satisfied(&op, &machine));
}

#[test]
fn bytes_that_are_no_utf8_stay_as_they_are_in_files_that_are_edited() {
    let host = Host::fresh();
    let bytes = |path: &str| std::fs::read(host.machine.path(path)).expect("a file");
    let has = |path: &str, line: &[u8]| bytes(path).split(|b| *b == b'\n').any(|found| found == line);
    host.put("/etc/hosts", b"127.0.1.1 node1\n10.0.0.9 drucker # B\xfcro\n");
    host.put("/etc/fstab", b"//nas/B\xfcro /mnt/b\xfcro cifs defaults 0 0\n/dev/sdb2 none swap sw 0 0\n");
    host.put("/etc/resolv.conf", b"# B\xfcro\nnameserver 10.0.0.1\n");
    for op in [
        Op::from(HostsBlock { lines: vec!["10.0.0.5 node1".into()], own_name: "node1".into() }),
        SwapOff {}.into(),
        Resolver { nameservers: vec!["10.0.0.53".into()] }.into(),
    ] {
        dispatch::converge(&op, &host.machine).expect("converge");
        assert!(satisfied(&op, &host.machine), "{op:?}");
    }
    assert!(has("/etc/hosts", b"10.0.0.9 drucker # B\xfcro"));
    assert!(has("/etc/fstab", b"//nas/B\xfcro /mnt/b\xfcro cifs defaults 0 0"));
    assert!(has("/etc/resolv.conf", b"# B\xfcro"));
}

#[test]
fn a_block_in_etc_hosts_whose_end_was_deleted_does_not_swallow_the_rest() {
    let host = Host::fresh();
    host.put("/etc/hosts", "# BEGIN KubeXM Managed Block\n10.0.0.5 node1\n10.0.0.9 printer\n");
    let op = Op::from(HostsBlock { lines: vec!["10.0.0.5 node1".into()], own_name: "node1".into() });
    dispatch::converge(&op, &host.machine).expect("converge");
    assert!(host.read("/etc/hosts").contains("10.0.0.9 printer\n"), "{}", host.read("/etc/hosts"));
    assert!(satisfied(&op, &host.machine));
}

const SOCKET: &str = "unix:///run/containerd/containerd.sock";

fn init() -> Op {
    let config = "/etc/kubexm/kubeadm.yaml".to_owned();
    KubeadmInit { config, cri_socket: SOCKET.into(), ignore: vec!["Swap".into()], backup: None }.into()
}

fn two_ops(host: &mut Host) -> Step {
    Step::on("node1", "os.names", "Name it")
        .ensure(Hostname { name: "node1".into() })
        .ensure(host.file("/etc/motd", "hello\n"))
        .ensure(Stamp { cluster: "lab".into(), id: None, bundle: None, adopted: false })
        .undo(Undo::RestoreBefore)
        .build()
}

#[test]
fn a_step_that_failed_anywhere_is_rolled_back_from_the_ledger_alone() {
    for point in (1..=3).flat_map(|n| [FaultPoint::Before(n), FaultPoint::After(n)]) {
        let mut host = Host::fresh();
        host.put("/etc/motd", "old\n");
        let before = host.tree();
        let step = two_ops(&mut host);
        let found = step::observe(&step, &host.machine).expect("a look");
        let failing = host.machine.with_faults(Arc::new(Faults::at(point)));
        step::converge(&step, &failing, "r1", 1, &found).expect_err("the fault");
        // A second try that also fails must not take the half-done state for the one before.
        let again = host.machine.with_faults(Arc::new(Faults::at(FaultPoint::Before(1))));
        let _ = step::converge(&step, &again, "r1", 1, &found);
        let record = host.machine.ledger().before("r1", &step.id).expect("a ledger").expect("a record");
        for wave in kubexm_ops::Wave::ALL {
            step::restore(&step, &host.machine, &record.before, wave).expect("restore");
        }
        common::same(&before, &host.tree(), &format!("{point:?}"));
    }
}

#[test]
fn a_step_run_twice_converges_nothing_the_second_time() {
    let mut host = Host::fresh();
    let step = two_ops(&mut host);
    step::converge(&step, &host.machine, "r1", 1, &[]).expect("first");
    let traces = host.traces();
    let counting = Arc::new(Faults::counting());
    step::converge(&step, &host.machine.with_faults(counting.clone()), "r2", 1, &[]).expect("second");
    assert_eq!(counting.count(), 0);
    common::same(&traces, &host.traces(), "second run");
}

#[test]
fn a_torn_last_line_of_the_ledger_is_cut_off_and_a_broken_one_elsewhere_is_an_error() {
    let mut host = Host::fresh();
    let step = two_ops(&mut host);
    step::converge(&step, &host.machine, "r1", 1, &[]).expect("step");
    let path = "/var/lib/kubexm/ledger/records.jsonl";
    let whole = host.read(path);
    host.put(path, format!("{whole}{{\"schema\":1,\"ru"));
    assert_eq!(host.machine.ledger().records().expect("records").len(), 2);
    step::converge(&step, &host.machine, "r1", 2, &[]).expect("step");
    let records = host.machine.ledger().records().expect("records");
    assert_eq!(records.len(), 4);
    assert_eq!(records.last().map(|record| &record.outcome), Some(&Outcome::Done));
    host.put(path, format!("nonsense\n{whole}"));
    assert!(host.machine.ledger().records().is_err_and(|error| error.full().contains("line 1")));
}

#[test]
fn the_ledger_is_not_readable_for_other_users() {
    use std::os::unix::fs::MetadataExt;
    let mut host = Host::fresh();
    host.put("/etc/motd", "old\n");
    step::converge(&two_ops(&mut host), &host.machine, "r1", 1, &[]).expect("step");
    let mode = |path: &str| host.machine.path(path).metadata().expect("metadata").mode() & 0o777;
    assert_eq!(mode("/var/lib/kubexm/ledger"), 0o700);
    assert_eq!(mode("/var/lib/kubexm/ledger/records.jsonl"), 0o600);
    let kept = format!("/var/lib/kubexm/ledger/content/{}", Digest::of("old\n").hex());
    assert_eq!(mode(&kept), 0o600);
    assert_eq!(
        host.machine.ledger().before("r1", &StepId("node1/os.names".into())).expect("a ledger").map(|r| r.sequence),
        Some(1)
    );
}

#[test]
fn probes_say_what_is_missing_instead_of_failing() {
    let host = Host::fresh();
    let ready = Probe::NodeReady { node: "node1".into(), kubelet: None };
    let answer = probe::look(&ready, &host.machine).expect("an answer");
    assert!(!answer.holds && answer.seen.contains("kubectl"), "{answer:?}");
    host.ready_for_init();
    dispatch::converge(&init(), &host.machine).expect("init");
    for probe in [
        ready,
        Probe::CriReady { runtime: RuntimeKind::Containerd, config_dump: vec![] },
        Probe::PodsRunning {
            namespaces: vec!["kube-system".into()],
            workloads: vec!["coredns".into()],
            images: vec![],
            kubeadm_only: false,
            new_nodes: vec![],
        },
        Probe::PodNetwork {
            node: "node1".into(),
            image: "registry.k8s.io/pause:3.10.1".into(),
            name: "kubernetes.default.svc.cluster.local".into(),
            dns: "10.233.0.10".into(),
            service: "10.233.0.1:443".into(),
        },
    ] {
        let answer = probe::look(&probe, &host.machine).expect("an answer");
        assert!(answer.holds, "{probe:?}: {}", answer.seen);
    }
    let dump = Probe::CriReady { runtime: RuntimeKind::Containerd, config_dump: vec!["SystemdCgroup".into()] };
    assert!(!probe::look(&dump, &host.machine).expect("an answer").holds);
}
