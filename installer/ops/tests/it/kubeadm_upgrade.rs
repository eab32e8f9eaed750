//! `kubeadm upgrade` on a control plane and on a worker: done, half done, not begun, and rolled back.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::collections::BTreeMap;

use kubexm_ops::{Machine, Wave, dispatch, facts, probe, step};
use kubexm_plan::op::{KubeadmUpgrade, KubeadmUpgradeUndo, NodeDrain, Op, Probe, Progress, Unit, UpgradeOf};
use kubexm_plan::{Step, Undo};

use crate::fleet::{Fleet, act, satisfied};

mod settings;

const VERSION: &str = "v1.35.4";
const CONFIG: &str = "/etc/kubexm/kubeadm-upgrade.yaml";
const TEXT: &str = "kind: ClusterConfiguration\nkubernetesVersion: v1.35.4\netcd:\n  local:\n    imageTag: 3.6.6-0\n";
const KUBELET: &str = "/var/lib/kubelet/config.yaml";

/// Two control planes and a worker; all have the new kubeadm.
fn fleet() -> Fleet {
    let fleet = Fleet::with_init(3);
    dispatch::converge(&act(2, true), &fleet.ready(2)).expect("a control plane");
    dispatch::converge(&act(3, false), &fleet.ready(3)).expect("a worker");
    for (number, host) in fleet.hosts.iter().enumerate() {
        host.put("/proc/sys/kernel/hostname", format!("node{}\n", number + 1));
        host.put("/usr/local/bin/kubeadm", "binary/kubeadm 1.35.4 for Amd64\n");
    }
    fleet.hosts[0].put(CONFIG, TEXT);
    fleet
}

fn upgrade(of: UpgradeOf) -> Op {
    let image = |pod: &str, tag: &str| (pod.to_owned(), format!("registry.k8s.io/{pod}:{tag}"));
    let images = match of.is_control_plane() {
        true => BTreeMap::from([image("etcd", "3.6.6-0"), image("kube-apiserver", VERSION)]),
        false => BTreeMap::new(),
    };
    let (version, ignore) = (VERSION.to_owned(), vec!["SystemVerification".into()]);
    KubeadmUpgrade { version, of, images, patches: None, ignore, skip_phases: vec![], same_etcd: true, settings: None }
        .into()
}

fn first() -> Op {
    upgrade(UpgradeOf::Cluster { config: Some(CONFIG.to_owned()) })
}

fn progress(op: &Op, machine: &Machine) -> Progress {
    let found = dispatch::observe(op, machine).expect("observed");
    found.state::<kubexm_plan::Act>().expect("a progress")
}

fn worker_step() -> Step {
    let undo = Undo::Act { act: KubeadmUpgradeUndo { version: VERSION.to_owned(), settings: None }.into() };
    Step::on("node3", "upgrade.node", "Upgrade").ensure(upgrade(UpgradeOf::Worker)).undo(undo).build()
}

#[test]
fn the_cluster_its_control_planes_and_a_worker_are_upgraded_and_a_second_time_nothing_is_done() {
    let fleet = fleet();
    let [one, two, three] = [0, 1, 2].map(|host: usize| &fleet.hosts[host].machine);
    let ops = [(first(), one), (upgrade(UpgradeOf::ControlPlane), two), (upgrade(UpgradeOf::Worker), three)];
    for (op, machine) in &ops {
        assert_eq!(progress(op, machine), Progress::NotBegun);
        dispatch::converge(op, machine).expect("upgraded");
        assert_eq!(progress(op, machine), Progress::Done);
    }
    for host in &fleet.hosts[..2] {
        let manifest = host.read("/etc/kubernetes/manifests/kube-apiserver.yaml");
        assert!(manifest.contains("image: registry.k8s.io/kube-apiserver:v1.35.4"), "{manifest}");
    }
    assert!(fleet.hosts[2].read(KUBELET).contains(VERSION));
    // What kubeadm wrote now is what later edits are compared with, and what the cluster was made with.
    let found = facts::collect(one, "node1").expect("facts");
    assert_eq!(found.kubeadm_files.expect("compared").changed, Vec::new());
    assert_eq!(found.kubeadm_config, Some(kubexm_spec::Digest::of(TEXT)));
}

/// kubeadm of 1.32 and later makes the kube-proxy that an init has skipped.
#[test]
fn kubeadm_makes_no_kube_proxy_where_its_phase_is_skipped() {
    const PROXY: &str = "DaemonSet/kube-proxy";
    for (skip_phases, made) in [(vec![], true), (vec!["addon/kube-proxy".to_owned()], false)] {
        let fleet = fleet();
        fleet.change_state(|state| {
            state["objects"].as_object_mut().expect("objects").remove(PROXY);
        });
        for (of, host) in [
            (UpgradeOf::Cluster { config: Some(CONFIG.to_owned()) }, 0),
            (UpgradeOf::ControlPlane, 1),
            (UpgradeOf::Worker, 2),
        ] {
            let Op::Act(kubexm_plan::Act::KubeadmUpgrade(act)) = upgrade(of) else { unreachable!("it is one") };
            let op: Op = KubeadmUpgrade { skip_phases: skip_phases.clone(), ..act }.into();
            dispatch::converge(&op, &fleet.hosts[host].machine).expect("upgraded");
        }
        assert_eq!(fleet.state()["objects"].get(PROXY).is_some(), made, "{skip_phases:?}");
    }
}

const PKI: &str = "/etc/kubernetes/pki/etcd";

/// An authority, and what it has signed.
fn authority_and_leaf() -> (String, String) {
    let params = || rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    let ca = rcgen::CertifiedIssuer::self_signed(params(), rcgen::KeyPair::generate().expect("a key")).expect("a CA");
    let leaf = params().signed_by(&rcgen::KeyPair::generate().expect("a key"), &ca).expect("a certificate");
    (ca.pem(), leaf.pem())
}

/// A patch version has nothing new for it, and kubeadm does not wait for an etcd that it starts anew.
#[test]
fn etcd_is_left_alone_where_nothing_of_it_changes_and_its_certificates_are_renewed() {
    let (ca, leaf) = authority_and_leaf();
    let (_, foreign) = authority_and_leaf();
    // Whether etcd was started anew, and whether its certificates are other ones.
    let upgraded = |of: UpgradeOf, (etcd, server): (&str, &str), peer: &str, has_key: bool, same_etcd: bool| {
        let fleet = fleet();
        let host = &fleet.hosts[usize::from(of == UpgradeOf::ControlPlane)];
        if of == UpgradeOf::ControlPlane {
            dispatch::converge(&first(), &fleet.hosts[0].machine).expect("the first one");
        }
        for (pod, tag) in [("etcd", etcd), ("kube-apiserver", server)] {
            let path = format!("/etc/kubernetes/manifests/{pod}.yaml");
            host.put(&path, host.read(&path) + &format!("    image: registry.k8s.io/{pod}:{tag}\n"));
        }
        host.put(&format!("{PKI}/ca.crt"), &ca);
        for (name, pem) in [("server", leaf.as_str()), ("peer", peer), ("healthcheck-client", leaf.as_str())] {
            host.put(&format!("{PKI}/{name}.crt"), pem);
        }
        if !has_key {
            std::fs::remove_file(host.machine.path(format!("{PKI}/ca.key"))).expect("removed");
        }
        let Op::Act(kubexm_plan::Act::KubeadmUpgrade(act)) = upgrade(of) else { unreachable!("it is one") };
        let op: Op = KubeadmUpgrade { same_etcd, ..act }.into();
        dispatch::converge(&op, &host.machine).expect("upgraded");
        assert!(satisfied(&op, &host.machine));
        let renewed = ["server", "peer", "healthcheck-client"]
            .map(|name| host.read(&format!("{PKI}/{name}.crt")) != if name == "peer" { peer } else { leaf.as_str() });
        (host.machine.path("/run/kubexm-double/etcd-started").exists(), renewed)
    };
    let cluster = || UpgradeOf::Cluster { config: Some(CONFIG.to_owned()) };
    let same = ("3.6.6-0", "v1.35.3");
    for of in [cluster(), UpgradeOf::ControlPlane] {
        assert_eq!(upgraded(of, same, &leaf, true, true), (false, [true; 3]));
    }
    assert_eq!(upgraded(cluster(), same, &leaf, false, true), (false, [false; 3]), "nobody signs here");
    for (why, versions, peer, same_etcd) in [
        ("another image", ("3.6.5-0", "v1.35.3"), &leaf, true),
        ("another minor version", ("3.6.6-0", "v1.34.9"), &leaf, true),
        ("no image that says a version", ("3.6.6-0", "latest"), &leaf, true),
        ("other settings", same, &leaf, false),
        ("an authority that etcd was not started with", same, &foreign, true),
    ] {
        assert!(upgraded(cluster(), versions, peer, true, same_etcd).0, "{why}");
    }
}

/// kubeadm upgrades kube-proxy with the last control plane that is old. Where that one has died in between, nothing else does.
#[test]
fn where_every_api_server_is_new_and_kube_proxy_is_not_the_upgrade_is_not_done() {
    let fleet = fleet();
    let [one, two] = [0, 1].map(|host: usize| &fleet.hosts[host]);
    one.put("/run/kubexm-double/kube-proxy-image", "\"registry.k8s.io/kube-proxy:v1.34.4\"");
    fleet.change_state(|state| {
        state["images"]["node2"] = serde_json::json!({"kube-apiserver": "registry.k8s.io/kube-apiserver:v1.34.4"});
    });
    dispatch::converge(&first(), &one.machine).expect("upgraded");
    assert_eq!(progress(&first(), &one.machine), Progress::Done, "the other one comes later, and kube-proxy with it");
    dispatch::converge(&upgrade(UpgradeOf::ControlPlane), &two.machine).expect("upgraded");
    assert_eq!(progress(&first(), &one.machine), Progress::NotBegun);
    one.put("/run/kubexm-double/kube-proxy-image", "\"registry.k8s.io/kube-proxy:v1.35.4\"");
    assert_eq!(progress(&first(), &one.machine), Progress::Done);
    // Somebody who puts it back is not fought with.
    one.put("/run/kubexm-double/kube-proxy-image", "\"registry.k8s.io/kube-proxy:v1.34.4\"");
    dispatch::converge(&first(), &one.machine).expect("once more");
    assert_eq!(progress(&first(), &one.machine), Progress::Done);
}

#[test]
fn another_version_is_another_upgrade_and_an_edited_manifest_is_no_upgrade() {
    let fleet = fleet();
    let machine = &fleet.hosts[0].machine;
    dispatch::converge(&first(), machine).expect("upgraded");
    let Op::Act(kubexm_plan::Act::KubeadmUpgrade(act)) = first() else { unreachable!("it is one") };
    let next: Op = KubeadmUpgrade { version: "v1.36.0".to_owned(), ..act }.into();
    assert_eq!(progress(&next, machine), Progress::NotBegun);
    let path = "/etc/kubernetes/manifests/etcd.yaml";
    let text = fleet.hosts[0].read(path).replace("3.6.6-0", "3.6.5-0");
    fleet.hosts[0].put(path, text);
    assert_eq!(progress(&first(), machine), Progress::NotBegun);
    dispatch::converge(&first(), machine).expect("upgraded again");
    assert!(satisfied(&first(), machine));
}

/// After a boot nobody runs the Job of kubeadm's health check within its 15 s: it is asked again, and not without end.
#[test]
fn a_health_check_that_a_host_which_has_booted_does_not_pass_yet_is_asked_again() {
    let fleet = fleet();
    let host = &fleet.hosts[0];
    host.put("/run/kubexm-double/unhealthy-kubeadm-upgrade", "7");
    dispatch::converge(&first(), &host.machine).expect("the eighth one passes");
    assert!(satisfied(&first(), &host.machine));
    let fleet = self::fleet();
    let host = &fleet.hosts[0];
    host.put("/run/kubexm-double/unhealthy-kubeadm-upgrade", "100");
    let error = dispatch::converge(&first(), &host.machine).expect_err("it never passes").to_string();
    assert!(error.contains("[ERROR CreateJob]") && error.contains("are as before"), "{error}");
    assert_eq!(host.read("/run/kubexm-double/unhealthy-kubeadm-upgrade"), "92");
    // What kubeadm finds otherwise is final.
    host.put("/run/kubexm-double/unhealthy-kubeadm-upgrade", "0");
    host.put("/run/kubexm-double/refuse-kubeadm-upgrade", "CoreDNSMigration]: start version '1.9' not supported");
    let error = dispatch::converge(&first(), &host.machine).expect_err("refused").to_string();
    assert!(error.contains("CoreDNSMigration"), "{error}");
}

#[test]
fn one_that_was_killed_half_way_is_run_again() {
    let fleet = fleet();
    let machine = &fleet.hosts[0].machine;
    fleet.hosts[0].put("/run/kubexm-double/kill-kubeadm-upgrade", "");
    assert!(dispatch::converge(&first(), machine).is_err());
    assert_eq!(progress(&first(), machine), Progress::HalfDone);
    dispatch::converge(&first(), machine).expect("run again");
    assert_eq!(progress(&first(), machine), Progress::Done);
}

#[test]
fn the_kubeadm_of_another_version_is_an_error_and_no_upgrade() {
    let fleet = fleet();
    fleet.hosts[0].put("/usr/local/bin/kubeadm", "binary/kubeadm 1.34.4 for Amd64\n");
    let error = dispatch::converge(&first(), &fleet.hosts[0].machine).expect_err("refused").full();
    assert!(error.contains("this kubeadm is v1.34.4"), "{error}");
}

#[test]
fn the_kubelet_configuration_of_a_worker_comes_back_also_one_that_was_edited_and_also_after_a_kill() {
    for kill in [false, true] {
        let fleet = fleet();
        dispatch::converge(&first(), &fleet.hosts[0].machine).expect("upgraded");
        let (host, machine) = (&fleet.hosts[2], &fleet.hosts[2].machine);
        host.put(KUBELET, "edited by hand\n");
        let tree = host.tree();
        let step = worker_step();
        let before = step::observe(&step, machine).expect("observed");
        if kill {
            host.put("/run/kubexm-double/kill-kubeadm-upgrade", "");
            assert!(step::converge(&step, machine, "run", 1, &before).is_err());
        }
        step::converge(&step, machine, "run", 1, &before).expect("upgraded");
        assert_ne!(host.read(KUBELET), "edited by hand\n");
        for wave in Wave::ALL {
            step::undo(&step, machine, "run", 1, &before, wave).expect("undone");
        }
        crate::common::same(&tree, &host.tree(), "an undo");
        assert_eq!(progress(&upgrade(UpgradeOf::Worker), machine), Progress::NotBegun);
    }
}

#[test]
fn a_node_whose_kubelet_has_the_version_is_not_drained_for_it_again() {
    let fleet = fleet();
    let (one, worker) = (&fleet.hosts[0].machine, &fleet.hosts[2]);
    let unless_kubelet = Some(VERSION.to_owned());
    let drain: Op = NodeDrain {
        node: "node3".to_owned(),
        limit_s: 5,
        force: false,
        unless_kubelet,
        unless_packages: None,
        cordoned_by: None,
    }
    .into();
    let ready = |wanted: &str| {
        let probe = Probe::NodeReady { node: "node3".to_owned(), kubelet: Some(wanted.to_owned()) };
        probe::look(&probe, one).expect("an answer").holds
    };
    assert!(!satisfied(&drain, one) && !ready(VERSION));
    worker.put("/usr/local/bin/kubelet", "binary/kubelet 1.35.4 for Amd64\n");
    let loaded = vec!["/usr/local/bin/kubelet".to_owned()];
    let unit = Unit { name: "kubelet.service".into(), enabled: true, running: Some(true), loaded, reloaded: vec![] };
    dispatch::converge(&unit.into(), &worker.machine).expect("restarted");
    assert!(satisfied(&drain, one) && ready(VERSION) && !ready("v1.36.0"));
    let probe = Probe::NodeDrained {
        node: "node3".to_owned(),
        unless_kubelet: Some(VERSION.to_owned()),
        unless_packages: None,
    };
    assert!(probe::look(&probe, one).expect("an answer").holds);
}

fn asks(op: &Op) -> Probe {
    let Op::Act(kubexm_plan::Act::KubeadmUpgrade(act)) = op else { unreachable!("it is one") };
    Probe::KubeadmUpgradePasses { upgrade: Box::new(act.clone()) }
}

#[test]
fn kubeadm_is_asked_first_and_nothing_is_left_of_that() {
    let fleet = fleet();
    let (host, machine) = (&fleet.hosts[0], &fleet.hosts[0].machine);
    let tree = host.tree();
    let answer = || probe::look(&asks(&first()), machine).expect("an answer");
    assert!(answer().holds, "{}", answer().seen);
    host.put("/run/kubexm-double/refuse-kubeadm-upgrade", "CoreDNSUnsupportedPlugins]: start of autopath");
    let refused = answer();
    assert!(!refused.holds && refused.seen.contains("[ERROR CoreDNSUnsupportedPlugins]"), "{}", refused.seen);
    host.put(CONFIG, "kind: ClusterConfiguration\n");
    assert!(answer().seen.contains("kubeadm v1.35.4 does not take /etc/kubexm/kubeadm-upgrade.yaml"));
    host.put(CONFIG, TEXT);
    std::fs::remove_file(machine.path("/run/kubexm-double/refuse-kubeadm-upgrade")).expect("removed");
    crate::common::same(&tree, &host.tree(), "a dry run");
    host.put("/etc/kubernetes/tmp/kubeadm-upgrade-dryrun1/config.yaml", "of somebody's own dry run\n");
    let tree = host.tree();
    assert!(answer().holds, "{}", answer().seen);
    crate::common::same(&tree, &host.tree(), "what a dry run of somebody's has left");
    // Half done, the cluster has two versions.
    host.put("/run/kubexm-double/kill-kubeadm-upgrade", "");
    dispatch::converge(&first(), machine).expect_err("killed");
    host.put("/run/kubexm-double/refuse-kubeadm-upgrade", "Version]: two");
    assert!(answer().seen.contains("has begun already"));
}

/// `kubeadm config validate` came with 1.28; the one before reads its configuration in another way.
#[test]
fn a_kubeadm_without_validate_is_asked_too() {
    for (version, other) in [("1.25.16", "1.24.17"), ("1.27.16", "1.28.15"), ("1.28.15", "1.27.16")] {
        let fleet = fleet();
        let (host, machine) = (&fleet.hosts[0], &fleet.hosts[0].machine);
        host.put("/usr/local/bin/kubeadm", format!("binary/kubeadm {version} for Amd64\n"));
        let Op::Act(kubexm_plan::Act::KubeadmUpgrade(act)) = first() else { unreachable!("it is one") };
        let answer = |version: &str| {
            let upgrade = Box::new(KubeadmUpgrade { version: format!("v{version}"), ..act.clone() });
            probe::look(&Probe::KubeadmUpgradePasses { upgrade }, machine).expect("an answer")
        };
        assert!(answer(version).holds, "{}", answer(version).seen);
        assert!(!answer(other).holds, "another kubeadm");
        host.put(CONFIG, "kind: ClusterConfiguration\n");
        assert!(answer(version).seen.contains("does not take"), "{}", answer(version).seen);
    }
}

#[test]
fn the_clusters_configuration_is_put_back_if_no_static_pod_was_replaced() {
    let fleet = fleet();
    let (host, machine) = (&fleet.hosts[0], &fleet.hosts[0].machine);
    let config = || fleet.state()["objects"]["ConfigMap/kubeadm-config"].as_str().unwrap_or_default().to_owned();
    host.put("/run/kubexm-double/refuse-kubeadm-upgrade", "CreateJob]: timed out");
    let error = dispatch::converge(&first(), machine).expect_err("refused").full();
    assert!(
        error.contains("[ERROR CreateJob]") && error.contains("kubelet-config in the cluster are as before"),
        "{error}"
    );
    assert!(config().contains("ClusterConfiguration") && !config().contains(VERSION), "{}", config());
    std::fs::remove_file(machine.path("/run/kubexm-double/refuse-kubeadm-upgrade")).expect("removed");
    dispatch::converge(&first(), machine).expect("upgraded");
    assert!(config().contains(VERSION));
}

#[test]
fn an_etcd_that_both_versions_have_is_no_sign_of_a_replaced_pod() {
    let fleet = fleet();
    let (host, machine) = (&fleet.hosts[0], &fleet.hosts[0].machine);
    let image = "registry.k8s.io/etcd:3.6.5-0";
    host.put("/etc/kubernetes/manifests/etcd.yaml", format!("    image: {image}\n"));
    let api = ("kube-apiserver".to_owned(), format!("registry.k8s.io/kube-apiserver:{VERSION}"));
    let images = BTreeMap::from([("etcd".to_owned(), image.to_owned()), api]);
    let of = UpgradeOf::Cluster { config: Some(CONFIG.to_owned()) };
    let act = KubeadmUpgrade {
        version: VERSION.to_owned(),
        of,
        images,
        patches: None,
        ignore: Vec::new(),
        skip_phases: Vec::new(),
        same_etcd: false,
        settings: None,
    };
    host.put("/run/kubexm-double/refuse-kubeadm-upgrade", "CreateJob]: timed out");
    let error = dispatch::converge(&act.into(), machine).expect_err("refused").full();
    assert!(error.contains("kubelet-config in the cluster are as before"), "{error}");
}

#[test]
fn after_a_turn_the_static_pods_are_the_new_ones_and_every_member_answers() {
    let fleet = fleet();
    let machine = &fleet.hosts[1].machine;
    dispatch::converge(&first(), &fleet.hosts[0].machine).expect("upgraded");
    let images = match asks(&upgrade(UpgradeOf::ControlPlane)) {
        Probe::KubeadmUpgradePasses { upgrade } => upgrade.images,
        _ => BTreeMap::new(),
    };
    let pods = Probe::StaticPodsReady { node: "node2".to_owned(), images, external_etcd: false };
    let look = |probe: &Probe| probe::look(probe, machine).expect("an answer");
    assert!(look(&pods).seen.contains("etcd (it has "), "{}", look(&pods).seen);
    dispatch::converge(&upgrade(UpgradeOf::ControlPlane), machine).expect("upgraded");
    assert!(look(&pods).holds, "{}", look(&pods).seen);

    assert!(look(&Probe::EtcdHealthy { members: 2 }).holds);
    assert!(look(&Probe::EtcdHealthy { members: 3 }).seen.contains("it has 2 members, and 3 are wanted"));
    fleet.systems[0].kill_member("node1").expect("dead");
    let answer = look(&Probe::EtcdHealthy { members: 2 });
    assert!(!answer.holds && answer.seen.contains("node1 does not answer"), "{}", answer.seen);
}

/// Of a cluster that others have made.
fn with_its_own_config() -> Op {
    upgrade(UpgradeOf::Cluster { config: None })
}

#[test]
fn a_cluster_that_keeps_its_own_config_is_upgraded_without_an_upload() {
    let fleet = fleet();
    let machine = &fleet.hosts[0].machine;
    for image in ["etcd:3.6.6-0", "coredns/coredns:v1.12.1", "pause:3.10.1"] {
        fleet.load(0, &format!("registry.k8s.io/{image}"));
    }
    let config = || fleet.systems[0].object("ConfigMap/kubeadm-config").expect("readable");
    let before = config();
    dispatch::converge(&with_its_own_config(), machine).expect("upgraded");
    assert!(satisfied(&with_its_own_config(), machine));
    assert_eq!(config(), before, "no text of ours");
    let manifest = fleet.hosts[0].read("/etc/kubernetes/manifests/etcd.yaml");
    assert!(manifest.contains("image: registry.k8s.io/etcd:3.6.6-0"), "{manifest}");
    dispatch::converge(&upgrade(UpgradeOf::ControlPlane), &fleet.hosts[1].machine).expect("upgraded");
    dispatch::converge(&upgrade(UpgradeOf::Worker), &fleet.hosts[2].machine).expect("upgraded");
}

#[test]
fn one_that_cannot_begin_says_why_and_nothing_of_the_clusters_config_is_put_back() {
    let fleet = fleet();
    let (host, machine) = (&fleet.hosts[0], &fleet.hosts[0].machine);
    host.put("/run/kubexm-double/refuse-kubeadm-upgrade", "CreateJob]: timed out");
    let error = dispatch::converge(&with_its_own_config(), machine).expect_err("refused").full();
    assert!(error.contains("CreateJob") && !error.contains("as before"), "{error}");
    assert_eq!(progress(&with_its_own_config(), machine), Progress::HalfDone);
}

/// kubeadm decides itself what it pulls, and would find out in the middle of what cannot be rolled back.
#[test]
fn an_image_that_kubeadm_would_pull_and_nobody_has_loaded_is_named_before_it_begins() {
    let fleet = fleet();
    let (host, machine) = (&fleet.hosts[0], &fleet.hosts[0].machine);
    let look = || probe::look(&asks(&with_its_own_config()), machine).expect("an answer");
    let lacking = look();
    assert!(
        !lacking.holds && lacking.seen.contains(&format!("would pull registry.k8s.io/kube-apiserver:{VERSION}")),
        "{}",
        lacking.seen
    );
    for pod in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        fleet.load(0, &format!("registry.k8s.io/{pod}:{VERSION}"));
    }
    assert!(look().holds, "{}", look().seen);
    host.put("/run/kubexm-double/kubeadm-images", "registry.k8s.io/pause:3.11\n");
    assert!(look().seen.contains("would pull registry.k8s.io/pause:3.11"), "{}", look().seen);
    // An etcd that the cluster does not run is none of them.
    host.put("/run/kubexm-double/kubeadm-images", "registry.k8s.io/etcd:3.7.0-0\n");
    assert!(look().seen.contains("would pull registry.k8s.io/etcd:3.7.0-0"), "{}", look().seen);
    let mut beside = asks(&with_its_own_config());
    if let Probe::KubeadmUpgradePasses { upgrade } = &mut beside {
        upgrade.images.remove("etcd").expect("kubeadm's");
    }
    let beside = probe::look(&beside, machine).expect("an answer");
    assert!(beside.holds, "{}", beside.seen);
    // A runtime that is away does not lack images.
    let (name, running) = ("containerd.service".to_owned(), Some(false));
    let stopped = Op::from(Unit { name, enabled: true, running, loaded: vec![], reloaded: vec![] });
    dispatch::converge(&stopped, machine).expect("stopped");
    let away = look();
    assert!(!away.holds && away.seen.contains("connection refused"), "{}", away.seen);
    assert!(!away.seen.contains("would pull"), "{}", away.seen);
}
