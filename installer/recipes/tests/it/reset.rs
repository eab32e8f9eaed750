//! A reset must take what the ledgers say is ours, in an order that works, and nothing of anybody else.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::facts::{ForeignMount, Stamp};
use kubexm_plan::ledger::{Outcome, Record, SCHEMA};
use kubexm_plan::op::{self, Content, File, KubeadmInit, Packages, StateDir, Unit, WantedPackage};
use kubexm_plan::{Facts, ObservedState, Op, Plan, Reset, StepId, Undo, lint};
use kubexm_recipes::{RecipeError, ResetContext, ResetHost, reset, sample};
use kubexm_spec::cluster::Roles;
use kubexm_spec::{Digest, ExitCode, Family};
use serde_json::json;

mod etcd_data;
mod later_runs;
mod own_switch;

fn facts(host: &str, cluster: Option<&str>) -> Facts {
    let mut facts = sample::facts(host, 11);
    facts.stamp = cluster.map(|cluster| Stamp {
        cluster: cluster.to_owned(),
        run: "r".to_owned(),
        id: None,
        bundle: None,
        adopted: false,
    });
    facts
}

fn file(path: &str, text: &str) -> Op {
    File { path: path.to_owned(), content: Content::Text { digest: Digest::of(text) }, mode: 0o644 }.into()
}

fn unit(name: &str) -> Op {
    let loaded = vec![format!("/etc/systemd/system/{name}")];
    Unit { name: name.to_owned(), enabled: true, running: Some(true), loaded, reloaded: Vec::new() }.into()
}

fn init() -> Op {
    KubeadmInit {
        config: "/etc/kubexm/kubeadm.yaml".into(),
        cri_socket: "unix:///c.sock".into(),
        ignore: vec![],
        backup: None,
    }
    .into()
}

/// `before` names what each op found, so that a test can tell which was taken.
fn record(run: &str, step: &str, ops: &[(Op, &str)], outcome: Outcome) -> Record {
    Record {
        schema: SCHEMA,
        run: run.to_owned(),
        sequence: 0,
        step: StepId(format!("node1/{step}")),
        ops: ops.iter().map(|(op, _)| op.clone()).collect(),
        undo: Undo::RestoreBefore,
        before: ops.iter().map(|(_, before)| ObservedState::opaque(&json!(before), false)).collect(),
        outcome,
    }
}

/// Of a node that had none of them.
fn folders() -> Record {
    let paths = [
        "/etc/kubernetes",
        "/opt/containerd",
        "/run/containerd",
        "/run/flannel",
        "/usr/libexec/kubernetes",
        "/var/lib/cni",
        "/var/lib/containerd",
        "/var/lib/etcd",
        "/var/lib/kubelet",
        "/var/log/containers",
        "/var/log/pods",
    ];
    let ops = paths.map(|path| (Op::StateDir(StateDir::at(path)), ""));
    let mut record = record("create", "kubernetes.folders", &ops, Outcome::Done);
    for (path, found) in paths.iter().zip(&mut record.before) {
        *found = ObservedState::opaque(&json!({"path": path, "entry": {"is": "absent"}}), false);
    }
    record
}

fn a_cluster() -> Vec<Record> {
    let steps = [
        ("os.swap", vec![(Op::SwapOff(op::SwapOff {}), "swap")]),
        ("timesync.unit", vec![(unit("chrony.service"), "chrony")]),
        (
            "containerd.start",
            vec![(file("/etc/systemd/system/containerd.service", "c"), "no file"), (unit("containerd.service"), "off")],
        ),
        (
            "kubelet.unit",
            vec![(file("/etc/systemd/system/kubelet.service", "k"), "no file"), (unit("kubelet.service"), "off")],
        ),
        ("control-plane.init", vec![(init(), "notBegun")]),
        (
            "stamp",
            vec![(Op::Stamp(op::Stamp { cluster: "demo".to_owned(), id: None, bundle: None, adopted: false }), "none")],
        ),
    ];
    let mut records = vec![folders()];
    for (name, ops) in &steps {
        records.extend([Outcome::Begun, Outcome::Done].map(|outcome| record("create", name, ops, outcome)));
    }
    records
}

fn planned(hosts: Vec<ResetHost<'_>>) -> Result<Plan, RecipeError> {
    let cluster_digest = Digest::of("yaml");
    reset(&ResetContext {
        cluster: "demo",
        cluster_id: None,
        cluster_digest,
        hosts,
        registry_data: None,
        etcd_data: None,
    })
}

fn host<'a>(name: &'a str, roles: &str, facts: &'a Facts, ledger: &'a [Record]) -> ResetHost<'a> {
    let has = |role: char| roles.contains(role);
    let roles = Roles {
        control_plane: has('c'),
        worker: has('w'),
        etcd: has('e'),
        registry: has('r'),
        load_balancer: has('l'),
    };
    ResetHost { name, roles, facts, ledger }
}

/// What others pushed to Harbor lies in a folder of kubexm's own making.
#[test]
fn data_of_the_registry_stay_unless_they_are_asked_for() {
    let data = |path: &str| -> Op { op::Dir { path: path.to_owned(), mode: 0o755 }.into() };
    let ops = [(data("/srv/harbor"), "no folder"), (unit("kubexm-harbor.service"), "off")];
    let mut ledger = a_cluster();
    ledger.push(record("create", "harbor.serve", &ops, Outcome::Done));
    let facts = facts("node1", Some("demo"));
    let planned = |registry: bool, registry_data| {
        let (cluster_digest, roles) = (Digest::of("yaml"), if registry { "cwr" } else { "cw" });
        let hosts = vec![host("node1", roles, &facts, &ledger)];
        let cx =
            ResetContext { cluster: "demo", cluster_id: None, cluster_digest, hosts, registry_data, etcd_data: None };
        let plan = reset(&cx).expect("a plan");
        lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
        let purged = |op: &Op| match op {
            Op::Reset(Reset::Purge { paths, .. }) => paths.iter().any(|path| path == "/srv/harbor"),
            _ => false,
        };
        plan.steps.iter().flat_map(|step| &step.ops).any(purged)
    };
    assert!(!planned(true, None), "it stays");
    assert!(planned(true, Some("/srv/harbor")));
    assert!(!planned(true, Some("/srv")), "a folder that kubexm did not make is not deleted");
    assert!(!planned(false, Some("/srv/harbor")), "on no other host");
}

fn one(ledger: &[Record]) -> Plan {
    let facts = facts("node1", Some("demo"));
    planned(vec![host("node1", "cwr", &facts, ledger)]).expect("a plan")
}

fn changed(op: &Op) -> String {
    op.alone().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn reverted(plan: &Plan) -> Vec<(String, String)> {
    let ops = plan.steps.iter().flat_map(|step| &step.ops);
    ops.filter_map(|op| match op {
        Op::Reset(Reset::Reverted { ops, before }) => Some(ops.iter().zip(before)),
        _ => None,
    })
    .flatten()
    .map(|(op, before)| (changed(op), before.raw().as_str().unwrap_or_default().to_owned()))
    .collect()
}

#[test]
fn one_host_is_stopped_set_aside_and_brought_back_before_anything_is_deleted() {
    let plan = one(&a_cluster());
    let wanted = "\
reset demo (bundle none)
host node1: control-plane, worker, registry

node1/reset.stop: Stop Kubernetes, its pods and the runtime
  unit kubelet.service disabled, stopped, with /etc/systemd/system/kubelet.service
  no process of a pod, no init or join that still runs
  unit containerd.service disabled, stopped, with /etc/systemd/system/containerd.service
  timeout 600 s; undo: restore what was there

node1/reset.aside: Unmount volumes and move the data aside
  after node1/reset.stop
  set aside /etc/kubernetes /opt/containerd /run/containerd /run/flannel /usr/libexec/kubernetes /var/lib/cni \
/var/lib/containerd /var/lib/etcd /var/lib/kubelet /var/log/containers /var/log/pods
  timeout 600 s; undo: restore what was there

node1/reset.network: Remove the cluster's network interfaces, firewall rules and ipsets
  after node1/reset.aside
  no link, rule or set of a cluster in the network
  timeout 300 s; undo: restore what was there

node1/reset.revert: Restore earlier files, packages and settings
  after node1/reset.network
  as found before:
    unit kubelet.service enabled, running, with /etc/systemd/system/kubelet.service
    file /etc/systemd/system/kubelet.service 0644 from text 8254c329a928
    unit containerd.service enabled, running, with /etc/systemd/system/containerd.service
    file /etc/systemd/system/containerd.service 0644 from text 2e7d2c03a950
    unit chrony.service enabled, running, with /etc/systemd/system/chrony.service
    no swap
  timeout 600 s; undo: restore what was there

node1/reset.forget: Delete the data, the ledger and the agent
  after node1/reset.revert
  deleted: ledger, store, stamp, agent, what was set aside of /etc/kubernetes /opt/containerd /run/containerd \
/run/flannel /usr/libexec/kubernetes /var/lib/cni /var/lib/containerd /var/lib/etcd /var/lib/kubelet /var/log/containers \
/var/log/pods
  timeout 1800 s; undo: IRREVERSIBLE: the data is deleted
";
    assert_eq!(plan.render(), wanted);
    lint::check(plan).expect("a plan that passes its lint");
}

#[test]
fn workers_go_first_and_the_registry_last_and_nothing_is_deleted_before_all_are_done() {
    let names = ["cp1", "cp2", "reg", "w1", "w2"];
    let all = names.map(|name| facts(name, Some("demo")));
    let ledger = a_cluster();
    let roles = ["c", "c", "r", "w", "w"];
    let hosts = (0..5).map(|n| host(names[n], roles[n], &all[n], &ledger)).collect();
    let plan = planned(hosts).expect("a plan");
    let after = |step: &str| {
        let step = plan.step(&StepId(step.to_owned())).unwrap_or_else(|| panic!("no step {step}"));
        step.after.iter().map(|id| id.0.clone()).collect::<Vec<_>>()
    };
    assert_eq!(after("w1/reset.stop"), [""; 0]);
    assert_eq!(after("w2/reset.stop"), [""; 0]);
    assert_eq!(after("cp2/reset.stop"), ["w1/reset.revert", "w2/reset.revert"]);
    assert_eq!(after("cp1/reset.stop"), ["cp2/reset.revert"]);
    assert_eq!(after("reg/reset.stop"), ["cp1/reset.revert"]);
    for name in names {
        assert_eq!(after(&format!("{name}/reset.forget")), ["reg/reset.revert"]);
    }
    lint::check(plan).expect("a plan that passes its lint");
}

#[test]
fn of_several_runs_the_oldest_state_is_restored_without_rolled_back_and_reset_ones() {
    let path = "/etc/containerd/config.toml";
    let ledger = [
        record("rolled-back", "containerd.configure", &[(file(path, "0"), "not this")], Outcome::Begun),
        record("rolled-back", "containerd.configure", &[(file(path, "0"), "not this")], Outcome::Restored),
        record("create", "containerd.configure", &[(file(path, "1"), "the site's own")], Outcome::Done),
        record("upgrade", "containerd.configure", &[(file(path, "2"), "ours")], Outcome::Failed { text: "x".into() }),
        record("upgrade", "containerd.more", &[(file("/etc/more", "2"), "none")], Outcome::Begun),
        record("reset", "reset.stop", &[(unit("containerd.service"), "running")], Outcome::Done),
    ];
    let wanted = [("/etc/more", "none"), (path, "the site's own")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(reverted(&one(&ledger)), wanted);
}

#[test]
fn a_ledger_whose_states_nobody_can_read_is_refused_with_the_step() {
    let dir = |path: &str| (Op::StateDir(StateDir::at(path)), "no state of a folder");
    let (facts, ledger) =
        (facts("node1", Some("demo")), [record("create", "kubernetes.kubelet", &[dir("/etc/cni")], Outcome::Done)]);
    let error = planned(vec![host("node1", "cw", &facts, &ledger)]).expect_err("refused");
    let RecipeError::UnreadableState { host, step, op, .. } = &error else { panic!("{error}") };
    assert_eq!((host.as_str(), step.as_str(), *op), ("node1", "node1/kubernetes.kubelet", "StateDir"));
    assert_eq!(error.exit_code(), ExitCode::Preflight);
}

#[test]
fn a_services_folder_is_removed_if_it_is_new_and_else_only_its_new_entries() {
    let state = |path: &str, held: Option<&[&str]>| {
        let state = match held {
            None => json!({"path": path, "entry": {"is": "absent"}, "missing": ["/srv/made"]}),
            Some(held) => json!({"path": path, "entry": {"is": "directory", "mode": 493}, "held": held}),
        };
        ObservedState::opaque(&state, true)
    };
    let dir = |path: &str| (Op::StateDir(StateDir::at(path)), "");
    let (new, old, unknown) = ("/etc/cni", "/etc/kubernetes", "/var/lib/kubelet");
    let ops = [dir(new), dir(old), dir(unknown), (init(), "")];
    let mut create = record("create", "kubernetes.kubelet", &ops, Outcome::Done);
    let older = ObservedState::opaque(&json!({"path": unknown, "entry": {"is": "directory", "mode": 493}}), true);
    let theirs = ["audit-policy.yaml", "manifests/", "pki/", "pki/etcd/", "pki/etcd/site.crt"];
    let begun = ObservedState::opaque(&json!("x"), false);
    create.before = vec![state(new, None), state(old, Some(&theirs)), older, begun];
    // It finds what the first run has made.
    let mut again = record("again", "kubernetes.kubelet", &[dir(new), dir(old)], Outcome::Done);
    again.before = vec![state(new, Some(&["net.d/"])), state(old, Some(&["admin.conf", "audit-policy.yaml"]))];
    let plan = one(&[create, again]);
    let op = |wanted: fn(&Reset) -> bool| {
        let resets = plan.steps.iter().flat_map(|step| &step.ops).filter_map(|op| match op {
            Op::Reset(reset) => Some(reset.clone()),
            _ => None,
        });
        resets.into_iter().find(wanted).expect("such an op")
    };
    let paths = [new, old, "/etc/kubernetes/manifests", "/etc/kubernetes/pki", "/etc/kubernetes/pki/etcd"];
    let paths = paths.map(str::to_owned).to_vec();
    let spared: BTreeMap<String, Vec<String>> = serde_json::from_value(json!({
        "/etc/kubernetes": ["audit-policy.yaml", "manifests", "pki"],
        "/etc/kubernetes/manifests": [],
        "/etc/kubernetes/pki": ["etcd"],
        "/etc/kubernetes/pki/etcd": ["site.crt"],
    }))
    .expect("names by folder");
    let aside = op(|reset| matches!(reset, Reset::MoveStateAside { .. }));
    assert_eq!(aside, Reset::MoveStateAside { paths: paths.clone(), spared, moved: BTreeSet::new() });
    assert!(
        aside.to_string().ends_with("stays: /etc/kubernetes/audit-policy.yaml /etc/kubernetes/pki/etcd/site.crt"),
        "{aside}"
    );
    let Reset::Reverted { ops, .. } = op(|reset| matches!(reset, Reset::Reverted { .. })) else { panic!("another") };
    assert_eq!(ops, [unknown, old].map(|path| Op::StateDir(StateDir::at(path))));
    let gone = op(|reset| matches!(reset, Reset::Purge { .. }));
    assert_eq!(gone, Reset::Purge { paths, parents: vec!["/srv/made".to_owned()] });
}

#[test]
fn a_host_of_another_cluster_is_refused_by_stamp_and_by_ledger() {
    let stamped = facts("node1", Some("other"));
    let error = planned(vec![host("node1", "c", &stamped, &[])]).expect_err("it is another's");
    assert!(error.to_string().contains("node1 belongs to cluster other"), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Preflight);
    let bare = facts("node1", None);
    let ledger = [record(
        "create",
        "stamp",
        &[(Op::Stamp(op::Stamp { cluster: "third".into(), id: None, bundle: None, adopted: false }), "")],
        Outcome::Done,
    )];
    let error = planned(vec![host("node1", "c", &bare, &ledger)]).expect_err("it is another's");
    assert!(error.to_string().contains("cluster third"), "{error}");
}

#[test]
fn the_newest_stamp_says_whose_host_it_is() {
    let stamp = |run: &str, cluster: &str| {
        record(
            run,
            "stamp",
            &[(Op::Stamp(op::Stamp { cluster: cluster.into(), id: None, bundle: None, adopted: false }), "")],
            Outcome::Done,
        )
    };
    let ledger = [stamp("first", "older"), stamp("second", "demo")];
    for stamped in [None, Some("demo")] {
        let facts = facts("node1", stamped);
        let plan = planned(vec![host("node1", "c", &facts, &ledger)]).expect("the host is demo's by now");
        assert!(!plan.steps.is_empty());
    }
    let ledger = [stamp("first", "demo"), stamp("second", "newer")];
    let bare = facts("node1", None);
    let error = planned(vec![host("node1", "c", &bare, &ledger)]).expect_err("it is the newer one's");
    assert!(error.to_string().contains("cluster newer"), "{error}");
}

#[test]
fn a_ledger_of_a_newer_program_is_refused() {
    let facts = facts("node1", Some("demo"));
    let mut ledger = a_cluster();
    ledger[0].schema = SCHEMA + 1;
    let error = planned(vec![host("node1", "c", &facts, &ledger)]).expect_err("a newer ledger");
    assert!(error.to_string().contains(&format!("schema {}", SCHEMA + 1)), "{error}");
}

#[test]
fn a_clean_host_gets_no_step_and_after_a_rolled_back_create_only_our_traces_are_removed() {
    let bare = facts("node1", None);
    assert_eq!(planned(vec![host("node1", "c", &bare, &[])]).expect("a plan").steps, []);
    let ledger = [record("create", "os.swap", &[(Op::SwapOff(op::SwapOff {}), "swap")], Outcome::Restored)];
    let plan = planned(vec![host("node1", "c", &bare, &ledger)]).expect("a plan");
    let ids: Vec<&str> = plan.steps.iter().map(|step| step.id.0.as_str()).collect();
    assert_eq!(ids, ["node1/reset.forget"]);
}

#[test]
fn packages_of_each_run_are_removed_and_those_of_an_older_run_only_once() {
    let packages = |names: &[&str]| {
        let wanted = |name: &&str| {
            let package = WantedPackage {
                version: "1".to_owned(),
                arch: "amd64".to_owned(),
                file: format!("{name}.deb"),
                blob: Digest::of(name),
                upgrade: false,
            };
            ((*name).to_owned(), package)
        };
        Op::from(Packages {
            family: Family::Deb,
            repository: "/var/lib/kubexm/repos/debian-12-amd64".to_owned(),
            source: "/var/lib/kubexm/repos/debian-12-amd64/kubexm.list".to_owned(),
            packages: names.iter().map(wanted).collect(),
            replaced: BTreeMap::new(),
        })
    };
    let run = |run: &str, names: &[&str]| {
        record(run, "packages.install", &[(packages(names), "what was there")], Outcome::Done)
    };
    let plan = one(&[run("r1", &["socat", "conntrack"]), run("r2", &["ipset"]), run("r3", &["socat"])]);
    let reverted = plan.steps.iter().flat_map(|step| &step.ops).find_map(|op| match op {
        Op::Reset(Reset::Reverted { ops, .. }) => Some(ops.clone()),
        _ => None,
    });
    assert_eq!(reverted.expect("something is reverted"), [packages(&["ipset"]), packages(&["socat", "conntrack"])]);
}

#[test]
fn a_configuration_file_of_a_removed_package_is_set_aside_and_not_restored() {
    let (conf, dir) = ("/etc/chrony/chrony.conf", "/var/lib/chrony");
    let mut before = record("create", "time.before", &[(Op::StateDir(StateDir::at(conf)), "")], Outcome::Done);
    before.before[0] = ObservedState::opaque(&json!({"path": conf, "entry": {"is": "absent"}}), false);
    let written = record(
        "create",
        "time.client",
        &[(file(conf, "ours"), "the package's"), (file(dir, "x"), "mine")],
        Outcome::Done,
    );
    let plan = one(&[before, written]);
    assert_eq!(reverted(&plan), [(dir.to_owned(), "mine".to_owned())]);
    assert!(plan.render().contains("set aside /etc/chrony/chrony.conf\n"), "{}", plan.render());
}

#[test]
fn mounts_that_would_go_with_the_clusters_folders_are_named_on_all_hosts_before_anything_is_planned() {
    let mount = |folder: &str, point: &str, used_by: Option<&str>| ForeignMount {
        folder: folder.to_owned(),
        point: point.to_owned(),
        filesystem: "tmpfs".to_owned(),
        source: "tmpfs".to_owned(),
        used_by: used_by.map(str::to_owned),
    };
    let mut facts = ["node1", "node2"].map(|name| facts(name, Some("demo")));
    facts[0].foreign_mounts = vec![mount("/var/lib/kubelet", "/var/lib/kubelet/pods", None)];
    facts[1].foreign_mounts = vec![
        mount("/var/lib/kubelet", "/var/lib/kubelet/pods/1/volumes/a/b", Some("bash (pid 7)")),
        // Nothing of ours is in there.
        mount("/opt/cni", "/opt/cni/mine", None),
    ];
    let ledger = [folders()].into_iter().chain(a_cluster()).collect::<Vec<_>>();
    let hosts = vec![host("node1", "cwr", &facts[0], &ledger), host("node2", "w", &facts[1], &ledger)];
    let error = planned(hosts).expect_err("mounts");
    assert_eq!(error.exit_code(), ExitCode::Preflight);
    let text = error.to_string();
    for wanted in [
        "node1: /var/lib/kubelet/pods (tmpfs of tmpfs)",
        "node2: /var/lib/kubelet/pods/1/volumes/a/b (tmpfs of tmpfs), in use by bash (pid 7)",
        "nothing was stopped",
        "unmount them",
    ] {
        assert!(text.contains(wanted), "{text}");
    }
    assert!(!text.contains("/opt/cni"), "{text}");
}

#[test]
fn what_was_moved_aside_is_brought_back_last_when_the_clusters_folders_are_gone() {
    let aside = Op::MoveAside(op::MoveAside { paths: vec!["/var/lib/etcd".to_owned()] });
    let mut ledger = vec![record("create", "os.set-aside", &[(aside.clone(), "occupied")], Outcome::Done)];
    let folders_before = json!({"folders": [
        {"path": "/var/lib/etcd", "was": "occupied"},
        // Somebody emptied it before it was moved.
        {"path": "/var/lib/cni", "was": "empty"},
    ]});
    ledger[0].before[0] = ObservedState::opaque(&folders_before, false);
    ledger.extend([folders()].into_iter().chain(a_cluster()));
    let plan = one(&ledger);
    let at = |id: &str| plan.steps.iter().position(|step| step.id.0 == id).expect("a step");
    assert!(at("node1/reset.aside") < at("node1/reset.revert"));
    let reverted: Vec<&Op> = plan.steps[at("node1/reset.revert")]
        .ops
        .iter()
        .flat_map(|op| match op {
            Op::Reset(Reset::Reverted { ops, .. }) => ops.iter().collect(),
            _ => Vec::new(),
        })
        .collect();
    assert_eq!(reverted.last(), Some(&&aside));
    let moved = plan.steps[at("node1/reset.aside")].ops.iter().find_map(|op| match op {
        Op::Reset(Reset::MoveStateAside { moved, .. }) => Some(moved.clone()),
        _ => None,
    });
    assert_eq!(moved, Some(BTreeSet::from(["/var/lib/etcd".to_owned()])));
}
