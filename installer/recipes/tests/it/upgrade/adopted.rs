//! A cluster that was adopted is upgraded as by hand with kubeadm, and what others have made stays as it is.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use kubexm_plan::CONTROLLER;
use kubexm_plan::facts::{Leftover, SelinuxState};
use kubexm_plan::kubeadm_certificates::ADMIN_CONF;
use kubexm_plan::op::{Kubeconfig, UpgradeOf};
use kubexm_recipes::{preflight, preflight_before_upgrade, sample_adoption};
use kubexm_spec::Digest;
use kubexm_spec::cluster::RegistryKind;

use super::*;

/// Without a registry, as `adopt` has found it.
pub(super) fn adopted(control_planes: u8, workers: u8, target: &str) -> Case {
    let mut cluster = sample::fleet(control_planes, workers);
    cluster.registry.kind = RegistryKind::None;
    let mut case = Case::with(cluster, target);
    case.site.facts.values_mut().for_each(|facts| facts.stamp.as_mut().unwrap().adopted = true);
    let found = sample_adoption::running(&case.site.cluster);
    (case.running.kubeadm, case.running.kubelets) = (found.kubeadm, found.kubelets);
    case.running.kube_proxy = Some(format!("registry.k8s.io/kube-proxy:{OLD}"));
    for plane in case.site.cluster.role_groups.control_plane.clone() {
        case.running.certificates.push(Certificate {
            host: plane.clone(),
            path: ADMIN_CONF.to_owned(),
            subject: "kubernetes-admin".to_owned(),
            ends: i64::MAX,
            file: Some(Digest::of(plane)),
            leaf: None,
        });
    }
    case
}

/// The same over an etcd outside of kubeadm's control, of two control planes and a worker.
pub(super) fn over_etcd_of_others(target: &str) -> Case {
    let mut cluster = sample_adoption::with_external_etcd(sample::fleet(2, 1));
    cluster.registry.kind = RegistryKind::None;
    let mut case = Case::with(cluster, target);
    case.site.facts.values_mut().for_each(|facts| facts.stamp.as_mut().unwrap().adopted = true);
    let found = sample_adoption::running(&case.site.cluster);
    (case.running.kubeadm, case.running.kubelets, case.running.etcd) = (found.kubeadm, found.kubelets, found.etcd);
    case.running.components.retain(|component| component.name != "etcd");
    case
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().map(|step| step.id.0.as_str()).collect()
}

#[test]
fn a_patch_is_what_kubeadm_needs_and_nothing_of_what_others_have_made() {
    let plan = adopted(2, 1, PATCH).steps();
    let of = |host: &str| {
        let prefix = format!("{host}/");
        ids(&plan).into_iter().filter_map(|id| id.strip_prefix(&prefix).map(str::to_owned)).collect::<Vec<_>>()
    };
    let images = ["pause", "kube-proxy", "coredns"];
    let of_plane = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let staged = |images: &[&str]| -> Vec<String> {
        let images = images.iter().map(|image| format!("images.{image}"));
        std::iter::once("store.fill".to_owned()).chain(images).chain(["upgrade.kubeadm".to_owned()]).collect()
    };
    let all = [images.as_slice(), of_plane.as_slice()].concat();
    let turn = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>();
    let first = turn(&[
        "upgrade.staged",
        "upgrade.snapshot",
        "upgrade.preflight",
        "upgrade.apply",
        "kubeconfig.users",
        "upgrade.kubelet",
        "upgrade.ready-node1",
        "upgrade.static-pods",
        "upgrade.etcd",
        "upgrade.stamp",
        "upgrade.ready-node2",
        "upgrade.ready-node3",
        "check.ready-node1",
        "check.ready-node2",
        "check.ready-node3",
    ]);
    assert_eq!(of("node1"), [staged(&all), first].concat());
    let second = ["upgrade.node", "kubeconfig.users", "upgrade.kubelet", "upgrade.static-pods", "upgrade.etcd"];
    assert_eq!(of("node2"), [staged(&all), turn(&second), turn(&["upgrade.stamp"])].concat());
    let worker = ["upgrade.node", "upgrade.kubelet", "upgrade.stamp"];
    assert_eq!(of("node3"), [staged(&images), turn(&worker)].concat());
    assert_eq!(of(CONTROLLER), ["kubeconfig.operator"]);
}

/// Each host looks for the word itself, and does no other step.
#[test]
fn every_step_on_a_host_has_the_id_of_the_adopted_cluster_and_no_file_of_cluster_yamls() {
    let plan = adopted(2, 2, MINOR).steps();
    assert!(plan.is_of_adopted());
    for step in &plan.steps {
        assert_eq!(step.of_adopted, Some(sample::CLUSTER_ID).filter(|_| step.host != CONTROLLER), "{}", step.id);
    }
    for (step, op) in plan.steps.iter().flat_map(|step| step.ops.iter().map(move |op| (step, op))) {
        match op {
            Op::Act(Act::KubeadmUpgrade(act)) => {
                assert!(act.patches.is_none() && !matches!(act.of, UpgradeOf::Cluster { config: Some(_) }), "{act}");
            }
            Op::Stamp(stamp) => assert!(stamp.adopted, "{}", step.id),
            Op::ImageLoaded(image) => assert!(!image.source.is_registry(), "{}", step.id),
            Op::Kubeconfig(Kubeconfig { replaces, .. }) => assert_eq!(*replaces, Some(Digest::of(&step.host))),
            Op::Blobs(_) | Op::Binary(_) | Op::EtcdSnapshot(_) | Op::Act(_) => {}
            Op::Unit(unit) => {
                let files: Vec<_> = unit.files().map(String::as_str).collect();
                assert_eq!(
                    (unit.name.as_str(), files.as_slice()),
                    ("kubelet.service", ["/usr/local/bin/kubelet", "/var/lib/kubelet/config.yaml"].as_slice())
                );
            }
            Op::File(_) if step.host == CONTROLLER => {}
            other => panic!("{}: {other}", step.id),
        }
    }
    assert!(!Case::of(1, 1, MINOR).steps().is_of_adopted());
}

#[test]
fn nodes_are_drained_where_kubernetes_has_another_minor_version_and_never_for_a_runtime() {
    let mut case = adopted(1, 1, PATCH);
    case.running.nodes.iter_mut().for_each(|node| node.runtime_version = "1.7.1".to_owned());
    assert!(!ids(&case.steps()).iter().any(|id| id.contains("drain")));
    assert!(!case.warnings().contains("stay as they are"));
    let case = adopted(1, 1, MINOR);
    let plan = case.steps();
    for (one, other) in [
        ("node1/upgrade.snapshot", "node1/upgrade.apply"),
        ("node1/upgrade.preflight", "node1/upgrade.apply"),
        ("node1/upgrade.apply", "node1/upgrade.drain-node1"),
        ("node1/upgrade.drain-node1", "node1/upgrade.kubelet"),
        ("node1/upgrade.uncordon-node1", "node2/upgrade.node"),
        ("node1/upgrade.drain-node2", "node2/upgrade.kubelet"),
    ] {
        assert!(before(&plan, one, other), "{one} is not before {other}");
    }
    let warnings = case.warnings();
    for words in [
        "the pod network, add-ons and load balancers stay as they are",
        "by hand or with `--patches`",
        "kubectl -n kube-system get ds/kube-proxy deploy/coredns -o yaml",
        "before-v1.35.4",
    ] {
        assert!(warnings.contains(words), "{warnings}");
    }
    assert!(!warnings.contains("which `restore` reads"), "it is refused on such a cluster: {warnings}");
}

#[test]
fn what_has_the_version_already_gets_no_turn_and_only_its_stamp() {
    let mut case = adopted(1, 1, PATCH);
    let image = |name: &str| {
        case.site.manifest.artifacts.iter().find(|one| one.name.contains(&format!("/{name}:"))).unwrap().name.clone()
    };
    let images: Vec<String> = case.running.components.iter().map(|one| image(&one.name)).collect();
    case.running.components.iter_mut().zip(images).for_each(|(one, image)| one.image = image);
    case.running.nodes.iter_mut().for_each(|node| node.kubelet = PATCH.to_owned());
    case.running.server_version = Some(PATCH.to_owned());
    case.running.kube_proxy = Some(format!("registry.k8s.io/kube-proxy:{PATCH}"));
    let plan = case.steps();
    let turns: Vec<_> = ids(&plan).into_iter().filter(|id| id.contains("/upgrade.")).collect();
    assert_eq!(turns, ["node1/upgrade.staged", "node1/upgrade.stamp", "node2/upgrade.stamp"]);
    assert!(!case.warnings().contains("kubeadm writes its static pods"), "{}", case.warnings());
}

#[test]
fn an_upgrade_that_pauses_has_the_word_in_every_step_too() {
    let mut case = adopted(2, 1, PATCH);
    case.options.pause_after = Some(PauseAfter::FirstControlPlane);
    let plan = case.steps();
    assert!(has(&plan, "node1/upgrade.stamp") && !has(&plan, "node2/upgrade.node"));
    assert!(plan.steps.iter().all(|step| step.of_adopted.is_some() || step.host == CONTROLLER));
}

#[test]
fn tools_of_etcd_come_where_there_are_none_and_kubectl_only_in_the_place_of_its_own() {
    let tools = |plan: &Plan| {
        let step = plan.steps.iter().find(|step| step.id.0 == "node1/upgrade.etcd-tools").cloned();
        step.map(|step| match step.ops.as_slice() {
            [Op::Unpacked(op)] => op.members.values().cloned().collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        })
    };
    let kubectl = |plan: &Plan, host: &str| {
        let step = plan.steps.iter().find(|step| step.id.0 == format!("{host}/upgrade.kubelet")).unwrap();
        step.ops.iter().any(|op| matches!(op, Op::Binary(program) if program.path.ends_with("/kubectl")))
    };
    let mut case = adopted(1, 1, PATCH);
    let plan = case.steps();
    assert_eq!((tools(&plan), kubectl(&plan, "node1"), kubectl(&plan, "node2")), (None, true, true));
    let [plane, worker] = case.running.kubelets.as_mut_slice() else { panic!("two hosts") };
    plane.programs.retain(|program| program.name != "etcdutl");
    let of_package = plane.programs.iter_mut().find(|program| program.name == "kubectl").unwrap();
    (of_package.path, of_package.package) = ("/usr/bin/kubectl".to_owned(), Some("kubectl".to_owned()));
    worker.programs.retain(|program| program.name == "kubelet");
    let plan = case.steps();
    assert_eq!(tools(&plan), Some(vec!["/usr/local/bin/etcdutl".to_owned()]));
    assert!(before(&plan, "node1/upgrade.etcd-tools", "node1/upgrade.snapshot"));
    assert_eq!((kubectl(&plan, "node1"), kubectl(&plan, "node2")), (false, false));
    assert!(has(&plan, "node2/upgrade.kubeadm"), "a host that has none gets one");
}

#[test]
fn nobody_has_a_copy_of_an_admin_conf_that_is_not_there_and_the_operator_gets_one_only_where_the_endpoint_is_the_clusters()
 {
    let mut case = adopted(1, 0, PATCH);
    case.running.certificates.clear();
    case.running.kubelets[0].server = Some("https://10.0.0.1:6443".to_owned());
    let plan = case.steps();
    assert!(!has(&plan, "node1/kubeconfig.users") && !plan.has_controller_steps());
    assert!(case.warnings().contains("no kubeconfig is written on this machine"), "{}", case.warnings());
}

#[test]
fn static_pods_of_others_that_may_read_the_earlier_admin_conf_are_named() {
    let mut case = adopted(2, 1, PATCH);
    let manifest = |name: &str| Leftover { what: format!("/etc/kubernetes/manifests/{name}.yaml"), ours: false };
    for (host, facts) in &mut case.site.facts {
        // On a worker kubeadm renews nothing that such a pod reads.
        let of_others = if host == "node3" { "nginx-proxy" } else { "kube-vip" };
        facts.leftovers = vec![manifest(of_others), manifest("kube-apiserver")];
    }
    let warnings = case.warnings();
    let named = "/etc/kubernetes/manifests/kube-vip.yaml on node1, /etc/kubernetes/manifests/kube-vip.yaml on node2;";
    assert!(warnings.contains(named) && !warnings.contains("nginx-proxy"), "{warnings}");
}

/// Hosts of others are not prepared: swap, SELinux and the like are as they run.
#[test]
fn preflight_looks_only_at_what_the_upgrade_needs_of_hosts_that_others_have_prepared() {
    let mut case = adopted(1, 1, PATCH);
    for facts in case.site.facts.values_mut() {
        facts.hostname = "another".to_owned();
        facts.os_id = "flatcar".to_owned();
        facts.selinux = SelinuxState::Enforcing;
        facts.programs.clear();
    }
    let failed = |all: Vec<kubexm_recipes::Finding>| {
        let fails = all.into_iter().filter(|one| one.severity == preflight::Severity::Fail);
        fails.map(|one| format!("{}: {}", one.check, one.found)).collect::<Vec<_>>()
    };
    assert_eq!(failed(preflight_before_upgrade(&case.site.cx())), Vec::<String>::new());
    // kubeadm runs in a unit that earlier ones do not know, and would fail in the act that cannot be rolled back.
    case.site.facts.get_mut("node2").unwrap().systemd = Some(219);
    assert_eq!(failed(preflight_before_upgrade(&case.site.cx())), ["systemd: systemd 219"]);
    case.site.facts.values_mut().for_each(|facts| facts.stamp.as_mut().unwrap().adopted = false);
    assert!(!failed(preflight_before_upgrade(&case.site.cx())).is_empty());
}

#[test]
fn of_an_etcd_of_others_nothing_is_staged_saved_or_stopped_and_it_is_asked_as_the_api_server_asks() {
    let case = over_etcd_of_others(MINOR);
    let plan = case.steps();
    for id in ["images.etcd", "upgrade.snapshot", "upgrade.etcd-tools", "etcd.client"] {
        assert!(!ids(&plan).iter().any(|step| step.ends_with(id)), "{id}");
    }
    assert!(plan.is_of_adopted() && case.warnings().contains("no snapshot is taken"), "{}", case.warnings());
    for plane in ["node1", "node2"] {
        let step = plan.steps.iter().find(|step| step.id.0 == format!("{plane}/upgrade.etcd")).unwrap();
        let Some(Probe::EtcdMembersHealthy { members, unnamed: true, ca, certificate, key }) =
            step.probe.as_ref().map(|timed| &timed.probe)
        else {
            panic!("{step:?}")
        };
        assert_eq!(members.keys().collect::<Vec<_>>(), ["https://10.0.9.1:2379"]);
        let files =
            ["/etc/ssl/etcd/ssl/ca.pem", "/etc/ssl/etcd/ssl/node-node1.pem", "/etc/ssl/etcd/ssl/node-node1-key.pem"];
        assert_eq!([ca, certificate, key], files);
        let step = plan.steps.iter().find(|step| step.id.0 == format!("{plane}/upgrade.static-pods")).unwrap();
        let probe = step.probe.as_ref().map(|timed| &timed.probe);
        assert!(matches!(probe, Some(Probe::StaticPodsReady { external_etcd: true, .. })), "{step:?}");
    }
    let acts = plan.steps.iter().flat_map(|step| &step.ops);
    for op in acts {
        if let Op::Act(Act::KubeadmUpgrade(act)) = op {
            assert!(!act.images.contains_key("etcd"), "{act}");
        }
    }
}
