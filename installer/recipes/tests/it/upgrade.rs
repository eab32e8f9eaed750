//! An upgrade is refused by name before anything is changed, and goes node by node in an order that works.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use kubexm_plan::cluster_facts::{
    AppliedCluster, Certificate, Component, Condition, DeprecatedApi, EtcdMember, NodeFacts, SERVER_VERSION,
    TightBudget,
};
use kubexm_plan::facts::Stamp;
use kubexm_plan::lint::{self, Order};
use kubexm_plan::op::{Act, KubeadmUpgrade, Op, Probe};
use kubexm_plan::{ClusterFacts, Plan, Undo};
use kubexm_recipes::{PauseAfter, RecipeError, Upgrade, UpgradeOptions, sample, upgrade};
use kubexm_spec::{Cluster, ExitCode};

use crate::common::Site;

const OLD: &str = "v1.34.4";
const MINOR: &str = "v1.35.4";
const PATCH: &str = "v1.34.8";
const NOW: i64 = 1_700_000_000;

/// A running cluster of v1.34.4, and a bundle of another version.
struct Case {
    site: Site,
    running: ClusterFacts,
    options: UpgradeOptions,
}

impl Case {
    fn of(control_planes: u8, workers: u8, target: &str) -> Self {
        let mut cluster = sample::fleet(control_planes, workers);
        if let Some(kubernetes) = &mut cluster.kubernetes {
            kubernetes.version = Some(target.to_owned());
        }
        let mut site = Site::of(cluster);
        for facts in site.facts.values_mut() {
            facts.joined = true;
            facts.stamp = Some(Stamp {
                cluster: "demo".to_owned(),
                id: Some(sample::CLUSTER_ID),
                run: "r".to_owned(),
                bundle: None,
            });
        }
        let running = running(&site.cluster);
        Self { site, running, options: UpgradeOptions { now: NOW, ..UpgradeOptions::default() } }
    }

    fn plan(&self) -> Result<Upgrade, RecipeError> {
        upgrade(&self.site.cx(), &self.running, &self.options)
    }

    fn steps(&self) -> Plan {
        let plan = self.plan().unwrap_or_else(|error| panic!("{error}")).plan;
        let (plan, _) = lint::check(plan).unwrap_or_else(|problems| panic!("{problems:#?}"));
        plan.plan().clone()
    }

    /// Why it is refused.
    fn refused(&self) -> String {
        match self.plan() {
            Err(error) => {
                assert_eq!(error.exit_code(), ExitCode::Preflight);
                let text = error.to_string();
                assert!(text.contains("nothing was changed"), "{text}");
                text
            }
            Ok(_) => panic!("it is not refused"),
        }
    }

    fn warnings(&self) -> String {
        self.plan().unwrap_or_else(|error| panic!("{error}")).warnings.join("\n")
    }
}

fn running(cluster: &Cluster) -> ClusterFacts {
    let planes = &cluster.role_groups.control_plane;
    let image = |name: &str, tag: &str| format!("registry.k8s.io/{name}:{tag}");
    let pods =
        [("etcd", "3.6.5-0"), ("kube-apiserver", OLD), ("kube-controller-manager", OLD), ("kube-scheduler", OLD)];
    let component = |node: &str, (name, tag): (&str, &str)| Component {
        name: name.to_owned(),
        node: node.to_owned(),
        ready: true,
        image: image(name, tag),
        restarts: 0,
    };
    ClusterFacts {
        name: Some("demo".to_owned()),
        id: Some(sample::CLUSTER_ID),
        server_version: Some(OLD.to_owned()),
        nodes: cluster.hosts.iter().map(|host| node(&host.name)).collect(),
        etcd: planes.iter().map(|name| member(name)).collect(),
        components: planes.iter().flat_map(|node| pods.map(|pod| component(node, pod))).collect(),
        ..ClusterFacts::default()
    }
}

fn node(name: &str) -> NodeFacts {
    NodeFacts {
        name: name.to_owned(),
        roles: Vec::new(),
        kubelet: OLD.to_owned(),
        runtime: "containerd".to_owned(),
        runtime_version: "2.2.7".to_owned(),
        os_image: "Debian".to_owned(),
        kernel: "6.1".to_owned(),
        addresses: Vec::new(),
        ready: true,
        conditions: Vec::new(),
        unschedulable: false,
        cordoned_by: None,
    }
}

fn member(name: &str) -> EtcdMember {
    EtcdMember {
        id: "1".to_owned(),
        name: name.to_owned(),
        peer_urls: vec![format!("https://{name}:2380")],
        version: Some("3.6.5".to_owned()),
        healthy: true,
        learner: false,
    }
}

/// Ids of the steps, and whether one runs before another.
fn before(plan: &Plan, one: &str, other: &str) -> bool {
    let order = Order::of(plan);
    let at = |id: &str| plan.steps.iter().position(|step| step.id.0 == id).unwrap_or_else(|| panic!("no step {id}"));
    order.is_earlier(at(one), at(other))
}

fn has(plan: &Plan, id: &str) -> bool {
    plan.steps.iter().any(|step| step.id.0 == id)
}

#[test]
fn versions_that_kubernetes_cannot_be_upgraded_to_are_refused_by_name() {
    for (target, text) in [
        ("v1.34.2", "the cluster runs v1.34.4, and the bundle has v1.34.2, which is older"),
        ("v1.33.13", "the cluster runs v1.34.4, and the bundle has v1.33.13, which is older"),
        ("v1.36.2", "minor versions cannot be skipped; upgrade with a bundle of v1.35 first"),
    ] {
        let refused = Case::of(1, 1, target).refused();
        assert!(refused.contains(text), "{target}: {refused}");
    }
    for target in [PATCH, MINOR] {
        assert!(Case::of(1, 1, target).plan().is_ok(), "{target}");
    }
}

#[test]
fn a_node_that_an_earlier_upgrade_has_left_behind_is_named() {
    let mut case = Case::of(1, 2, MINOR);
    case.running.nodes[2].kubelet = "v1.33.9".to_owned();
    let refused = case.refused();
    assert!(refused.contains("kubelet on node3 is v1.33.9") && refused.contains("a bundle of v1.34"), "{refused}");
}

#[test]
fn a_bundle_of_another_cluster_and_hosts_that_only_one_of_both_has_are_refused() {
    let mut case = Case::of(1, 1, PATCH);
    case.running.name = Some("plant".to_owned());
    assert!(case.refused().contains("the hosts run cluster plant, and the bundle is for cluster demo"));

    let mut case = Case::of(1, 2, PATCH);
    case.running.nodes.pop();
    case.running.nodes.push(node("stray"));
    let refused = case.refused();
    assert!(refused.contains("node3 is in cluster.yaml and not in the cluster"), "{refused}");
    assert!(refused.contains("stray is a node of the cluster and not in cluster.yaml"), "{refused}");
}

#[test]
fn a_bundle_without_the_programs_of_an_architecture_is_refused() {
    let mut case = Case::of(1, 1, PATCH);
    case.site.facts.get_mut("node2").expect("a host").arch = Some(kubexm_spec::Arch::Arm64);
    let error = case.plan().expect_err("refused");
    assert!(error.to_string().contains("for linux/arm64"), "{error}");
    assert_eq!(error.exit_code(), ExitCode::BundleIncomplete);
}

#[test]
fn a_cluster_that_is_not_well_is_not_upgraded_and_everything_is_named_at_once() {
    let mut case = Case::of(3, 1, PATCH);
    let condition = Condition { kind: "Ready".into(), status: "False".into(), reason: "KubeletNotReady".into() };
    (case.running.nodes[3].ready, case.running.nodes[3].conditions) = (false, vec![condition]);
    case.running.etcd[1].healthy = false;
    case.running.etcd[2].learner = true;
    case.running.components[2].ready = false;
    let refused = case.refused();
    for text in [
        "node node4 is not Ready (KubeletNotReady)",
        "etcd's member node2 is not healthy",
        "etcd's member node3 is a learner",
        "kube-controller-manager on node1 is not ready",
    ] {
        assert!(refused.contains(text), "{text}: {refused}");
    }
}

#[test]
fn nothing_is_decided_about_a_cluster_that_does_not_answer() {
    for forget in [
        |facts: &mut ClusterFacts| facts.nodes.clear(),
        |facts: &mut ClusterFacts| facts.server_version = None,
        |facts: &mut ClusterFacts| facts.components.clear(),
        |facts: &mut ClusterFacts| facts.etcd.clear(),
    ] {
        let mut case = Case::of(1, 1, PATCH);
        forget(&mut case.running);
        let gap = |what: &str| kubexm_plan::cluster_facts::Gap {
            host: "node1".into(),
            what: what.into(),
            why: "refused".into(),
        };
        case.running.gaps = [SERVER_VERSION, "nodes", "static pods", "etcd members"].map(gap).to_vec();
        assert!(matches!(case.plan(), Err(RecipeError::Unobserved { .. })));
    }
}

#[test]
fn etcd_gets_no_3_6_before_every_member_runs_3_5_26() {
    let mut case = Case::of(3, 0, PATCH);
    for member in &mut case.running.etcd {
        member.version = Some("3.5.26".to_owned());
    }
    assert!(case.plan().is_ok());
    case.running.etcd[2].version = Some("3.5.24".to_owned());
    let refused = case.refused();
    assert!(refused.contains("etcd's member node3 runs 3.5.24") && refused.contains("3.5.26 or newer"), "{refused}");
    assert!(!refused.contains("member node1"), "{refused}");
}

/// A cluster of 1.33 as an earlier program has made it.
fn of_1_33(target: &str) -> Case {
    let mut case = Case::of(2, 1, target);
    let own = "v1.33.13";
    case.running.server_version = Some(own.to_owned());
    for node in &mut case.running.nodes {
        node.kubelet = own.to_owned();
    }
    let runtime = case.site.manifest.artifacts.iter().find(|a| a.name.starts_with("containerd")).expect("containerd");
    for node in &mut case.running.nodes {
        node.runtime_version.clone_from(&runtime.version);
    }
    for component in &mut case.running.components {
        component.image = component.image.replace(OLD, own).replace("3.6.5-0", "3.5.24-0");
    }
    for member in &mut case.running.etcd {
        member.version = Some("3.5.24".to_owned());
    }
    case
}

#[test]
fn a_cluster_before_etcds_gate_gets_there_with_a_bundle_of_its_own_version() {
    let refused = of_1_33("v1.34.4").refused();
    let says = "This kubexm-bundle builds bundles of v1.33 with such an etcd: build one of v1.33.13";
    assert!(
        refused.contains("member node1 runs 3.5.24, member node2 runs 3.5.24") && refused.contains(says),
        "{refused}"
    );

    // Nothing but etcd differs: control planes have a turn, one after the other, and no pod is evicted.
    let case = of_1_33("v1.33.13");
    let plan = case.steps();
    assert!(before(&plan, "node1/upgrade.snapshot", "node1/upgrade.apply"));
    assert!(before(&plan, "node1/upgrade.stamp", "node2/upgrade.node"));
    assert!(!has(&plan, "node3/upgrade.node") && !plan.steps.iter().any(|step| step.id.0.contains("upgrade.drain")));
    let images = plan.steps.iter().flat_map(|step| &step.ops).filter_map(|op| match op {
        Op::Act(Act::KubeadmUpgrade(act)) => Some(act.images["etcd"].as_str()),
        _ => None,
    });
    assert_eq!(images.collect::<Vec<_>>(), ["registry.k8s.io/etcd:3.5.26-0"; 2]);

    let mut after = of_1_33("v1.34.4");
    for member in &mut after.running.etcd {
        member.version = Some("3.5.26".to_owned());
    }
    assert!(has(&after.steps(), "node1/upgrade.drain-node3"));
}

/// kubeadm would skip it and say that all went well.
#[test]
fn an_etcd_that_is_newer_than_the_bundles_is_refused_and_so_are_missing_members() {
    let mut case = Case::of(3, 0, PATCH);
    case.running.etcd[1].version = Some("3.6.99".to_owned());
    let refused = case.refused();
    assert!(refused.contains("etcd's member node2 runs 3.6.99, which is newer than the bundle's"), "{refused}");
    let mut case = Case::of(3, 0, PATCH);
    case.running.etcd.pop();
    let refused = case.refused();
    assert!(refused.contains("etcd has 2 members, and there are 3 control planes"), "{refused}");
}

#[test]
fn certificates_that_have_ended_are_refused_and_those_that_end_soon_are_told() {
    let certificate = |path: &str, ends: i64| Certificate {
        host: "node1".to_owned(),
        path: path.to_owned(),
        subject: "cn".to_owned(),
        ends,
        file: None,
    };
    let mut case = Case::of(1, 0, PATCH);
    case.running.certificates = vec![certificate("/a.crt", NOW + 5 * 86_400), certificate("/b.crt", NOW + 90 * 86_400)];
    let warnings = case.warnings();
    assert!(warnings.contains("/a.crt on node1 ends in 5 days") && !warnings.contains("/b.crt"), "{warnings}");
    case.running.certificates.push(certificate("/c.crt", NOW - 1));
    let refused = case.refused();
    assert!(refused.contains("/c.crt on node1 has ended") && !refused.contains("/a.crt"), "{refused}");
    // Each with what renews it; kubelet's own, which nothing renews and nobody checks, is left alone.
    let ended = |path: &str| {
        let mut case = Case::of(1, 0, PATCH);
        case.running.certificates = vec![certificate(path, NOW - 1)];
        case
    };
    assert!(ended("/var/lib/kubelet/pki/kubelet.crt").plan().is_ok());
    for (path, mend) in [
        ("/etc/kubernetes/pki/apiserver.crt", "certs renew"),
        ("/var/lib/kubelet/pki/kubelet-client-current.pem", "certs renew"),
        ("/etc/kubexm/depot/tls.crt", "kubexm-install create"),
        ("/etc/kubernetes/pki/ca.crt", "Manual rotation"),
    ] {
        let refused = ended(path).refused();
        assert!(refused.contains(mend), "{path}: {refused}");
    }
}

#[test]
fn a_budget_that_never_lets_go_is_refused_where_nodes_are_drained() {
    let budget = |healthy, wanted| TightBudget { name: "shop/web".to_owned(), pods: 3, healthy, wanted };
    let mut case = Case::of(1, 1, MINOR);
    case.running.tight_budgets = vec![budget(3, 3)];
    let refused = case.refused();
    assert!(refused.contains("the PodDisruptionBudget shop/web wants 3 of its 3 pods at all times"), "{refused}");
    case.running.tight_budgets = vec![budget(2, 2)];
    assert!(case.warnings().contains("shop/web lets no pod go now (2 of 3 are healthy, and it wants 2)"));

    let mut patch = Case::of(1, 1, PATCH);
    patch.running.tight_budgets = vec![budget(3, 3)];
    assert!(patch.plan().is_ok(), "no node is drained");
}

#[test]
fn apis_that_the_new_version_has_no_more_are_named() {
    let api = |removed_in: &str| DeprecatedApi {
        group: "flowcontrol.apiserver.k8s.io".to_owned(),
        version: "v1beta3".to_owned(),
        resource: format!("of{}", removed_in.replace('.', "x")),
        removed_in: removed_in.to_owned(),
        written_by: Vec::new(),
    };
    let mut case = Case::of(1, 1, MINOR);
    case.running.deprecated_apis = vec![api("1.35"), api("1.36"), api("")];
    let warnings = case.warnings();
    assert!(warnings.contains("of1x35 of flowcontrol.apiserver.k8s.io/v1beta3 (gone in 1.35)"), "{warnings}");
    assert!(!warnings.contains("of1x36"), "{warnings}");
    case.running.deprecated_apis[0].written_by = vec!["helm (default/web)".to_owned()];
    assert!(case.warnings().contains("(gone in 1.35; objects were written through it by helm (default/web))"));
}

#[test]
fn what_has_no_way_back_is_said_before() {
    let case = Case::of(2, 1, MINOR);
    let warnings = case.warnings();
    let said = "until kubeadm begins to upgrade node1; from then on no version goes back";
    assert!(warnings.contains(said), "{warnings}");
    let plan = case.steps();
    let last = |id: &str| plan.steps.iter().find(|step| step.id.0 == id).map(|step| &step.undo);
    for id in ["node1/upgrade.apply", "node2/upgrade.node", "node1/upgrade.uncordon-node3"] {
        assert!(matches!(last(id), Some(Undo::Irreversible { .. })), "{id}");
    }
    assert!(matches!(last("node3/upgrade.node"), Some(Undo::Act { .. })));
}

#[test]
fn content_and_a_snapshot_come_first_then_control_planes_one_by_one_then_the_network_then_workers() {
    let plan = Case::of(3, 2, MINOR).steps();
    for host in ["node2", "node3", "node4", "node5"] {
        assert!(before(&plan, &format!("{host}/store.fill"), "node1/upgrade.snapshot"), "{host}");
        assert!(before(&plan, &format!("{host}/images.kube-proxy"), "node1/upgrade.snapshot"), "{host}");
    }
    for (one, other) in [
        ("node1/upgrade.snapshot", "node1/upgrade.kubeadm"),
        ("node1/upgrade.kubeadm", "node1/upgrade.apply"),
        ("node1/upgrade.apply", "node1/upgrade.drain-node1"),
        ("node1/upgrade.drain-node1", "node1/runtime.run"),
        ("node1/runtime.run", "node1/upgrade.kubelet"),
        ("node1/upgrade.kubelet", "node1/upgrade.ready-node1"),
        ("node1/upgrade.ready-node1", "node1/upgrade.uncordon-node1"),
        ("node1/upgrade.uncordon-node1", "node2/upgrade.kubeadm"),
        ("node1/upgrade.uncordon-node2", "node3/upgrade.kubeadm"),
        ("node1/upgrade.uncordon-node3", "node1/network.flannel"),
        ("node1/network.flannel", "node4/upgrade.kubeadm"),
        ("node1/upgrade.uncordon-node4", "node5/upgrade.kubeadm"),
        ("node1/upgrade.uncordon-node5", "node1/record.applied"),
    ] {
        assert!(before(&plan, one, other), "{one} is not before {other}");
    }
}

#[test]
fn a_patch_drains_nothing_unless_it_is_asked_for() {
    let mut case = Case::of(1, 2, PATCH);
    let drains = |plan: &Plan| plan.steps.iter().filter(|step| step.id.0.contains("upgrade.drain")).count();
    let plan = case.steps();
    assert_eq!(drains(&plan), 0);
    assert!(has(&plan, "node2/upgrade.kubelet") && has(&plan, "node1/upgrade.apply"));
    case.options.always_drain = true;
    assert_eq!(drains(&case.steps()), 3);
}

#[test]
fn a_new_minor_version_of_the_runtime_drains_too() {
    let mut case = Case::of(1, 1, PATCH);
    for node in &mut case.running.nodes {
        node.runtime_version = "1.7.30".to_owned();
    }
    assert!(has(&case.steps(), "node1/upgrade.drain-node2"));
}

#[test]
fn so_many_workers_as_asked_for_are_upgraded_at_the_same_time() {
    let mut case = Case::of(1, 4, MINOR);
    case.options.batch = 2;
    let plan = case.steps();
    let order = Order::of(&plan);
    let at = |id: String| plan.steps.iter().position(|step| step.id.0 == id).expect("a step");
    let starts = |worker: u8| at(format!("node{worker}/upgrade.kubeadm"));
    let ends = |worker: u8| at(format!("node1/upgrade.uncordon-node{worker}"));
    assert!(!order.is_earlier(ends(2), starts(3)), "the first two run together");
    assert!(order.is_earlier(ends(2), starts(4)) && order.is_earlier(ends(3), starts(5)));
    assert!(!order.is_earlier(ends(3), starts(4)), "the fourth waits for one of them only");
}

#[test]
fn an_upgrade_can_pause_and_the_next_one_does_the_rest() {
    let mut case = Case::of(2, 3, MINOR);
    for (pause, there, missing) in [
        (PauseAfter::FirstControlPlane, "node1/upgrade.stamp", "node2/upgrade.node"),
        (PauseAfter::ControlPlanes, "node2/upgrade.stamp", "node3/upgrade.node"),
        (PauseAfter::FirstBatch, "node3/upgrade.stamp", "node4/upgrade.node"),
    ] {
        case.options.pause_after = Some(pause);
        let plan = case.steps();
        assert!(has(&plan, there) && !has(&plan, missing), "{pause:?}");
        assert!(!has(&plan, "node1/record.applied"), "{pause:?}: not all of it was applied");
    }
    // As the first two pauses leave it.
    case.options.pause_after = None;
    for component in case.running.components.iter_mut().filter(|component| component.name != "etcd") {
        component.image = component.image.replace(OLD, MINOR);
    }
    let etcd = |component: &&mut Component| component.name == "etcd";
    for component in case.running.components.iter_mut().filter(etcd) {
        component.image = "registry.k8s.io/etcd:3.6.6-0".to_owned();
    }
    for node in &mut case.running.nodes[..2] {
        node.kubelet = MINOR.to_owned();
    }
    let runtime = case.site.manifest.artifacts.iter().find(|a| a.name.starts_with("containerd")).expect("containerd");
    for node in &mut case.running.nodes {
        node.runtime_version.clone_from(&runtime.version);
    }
    let plan = case.steps();
    assert!(!has(&plan, "node1/upgrade.apply") && !has(&plan, "node2/upgrade.node"));
    assert!(!has(&plan, "node1/upgrade.snapshot"), "no control plane is upgraded");
    assert!(has(&plan, "node3/upgrade.node") && has(&plan, "node1/record.applied"));
}

#[test]
fn a_node_that_somebody_has_cordoned_stays_so_and_one_of_an_interrupted_upgrade_does_not() {
    let mut case = Case::of(1, 3, MINOR);
    case.running.nodes[2].unschedulable = true;
    assert!(case.warnings().contains("node3 is cordoned, not by an upgrade, and stays so"));
    let plan = case.steps();
    assert!(has(&plan, "node1/upgrade.drain-node3") && !has(&plan, "node1/upgrade.uncordon-node3"));
    assert!(has(&plan, "node1/upgrade.uncordon-node2"));

    case.running.nodes[2].cordoned_by = Some(format!("upgrade of {}", sample::CLUSTER_ID));
    assert!(!case.warnings().contains("cordoned"));
    assert!(has(&case.steps(), "node1/upgrade.uncordon-node3"));
    // Whoever else writes such marks keeps the node.
    case.running.nodes[3].unschedulable = true;
    case.running.nodes[3].cordoned_by = Some("another program".to_owned());
    assert!(!has(&case.steps(), "node1/upgrade.uncordon-node4"));

    // The next upgrade drains nothing: the mark of the one before is enough.
    let mut patch = Case::of(1, 3, PATCH);
    patch.running.nodes[2].unschedulable = true;
    patch.running.nodes[2].cordoned_by = Some(format!("upgrade of {}", sample::CLUSTER_ID));
    let plan = patch.steps();
    assert!(!has(&plan, "node1/upgrade.drain-node3") && has(&plan, "node1/upgrade.uncordon-node3"));

    // Killed behind its last change: nothing differs any more.
    let mut done = Case::of(1, 1, OLD);
    let runtime = done.site.manifest.artifacts.iter().find(|a| a.name.starts_with("containerd")).expect("containerd");
    for node in &mut done.running.nodes {
        node.runtime_version.clone_from(&runtime.version);
        node.unschedulable = true;
        node.cordoned_by = Some(format!("upgrade of {}", sample::CLUSTER_ID));
    }
    let plan = done.steps();
    assert!(has(&plan, "node1/upgrade.uncordon-node1") && has(&plan, "node1/upgrade.uncordon-node2"));
    assert!(!has(&plan, "node1/upgrade.apply") && !has(&plan, "node2/upgrade.kubelet"));
}

#[test]
fn kubeadm_is_asked_before_anything_runs_another_version_and_each_control_plane_is_whole_before_the_next_one() {
    let plan = Case::of(2, 1, MINOR).steps();
    for (one, other) in [
        ("node1/upgrade.config", "node1/upgrade.preflight"),
        ("node1/upgrade.preflight", "node1/upgrade.apply"),
        ("node1/upgrade.ready-node1", "node1/upgrade.static-pods"),
        ("node1/upgrade.static-pods", "node1/upgrade.etcd"),
        ("node1/upgrade.etcd", "node1/upgrade.uncordon-node1"),
        ("node2/upgrade.etcd", "node1/upgrade.uncordon-node2"),
    ] {
        assert!(before(&plan, one, other), "{one} is not before {other}");
    }
    let step = plan.steps.iter().find(|step| step.id.0 == "node2/upgrade.static-pods").expect("a step");
    let probe = step.probe.as_ref().expect("a probe");
    let Probe::StaticPodsReady { images, .. } = &probe.probe else { panic!("{probe:?}") };
    assert_eq!(images["kube-scheduler"], format!("registry.k8s.io/kube-scheduler:{MINOR}"));
    assert!(!has(&plan, "node3/upgrade.etcd"), "a worker has no member");
}

#[test]
fn a_version_that_somebody_has_put_back_is_named_and_the_clusters_own_bundle_mends_it() {
    let applied = |kubernetes: &str| AppliedCluster {
        schema: kubexm_plan::cluster_facts::applied::SCHEMA.to_owned(),
        name: "demo".to_owned(),
        id: Some(sample::CLUSTER_ID),
        kubernetes: kubernetes.to_owned(),
        cluster_sha256: kubexm_spec::Digest::of("x"),
        cluster: serde_json::Value::Null,
        bundle: kubexm_plan::BundleRecord {
            manifest: kubexm_spec::Digest::of("m"),
            signers: std::collections::BTreeSet::new(),
            date: None,
            sequence: None,
        },
        program: "kubexm-install".to_owned(),
    };
    let mut case = Case::of(2, 1, MINOR);
    case.running.applied = Some(applied(OLD));
    case.running.nodes[1].kubelet = "v1.34.1".to_owned();
    let refused = case.refused();
    assert!(refused.contains("was brought to v1.34.4 before, and kubelet on node2 is v1.34.1"), "{refused}");
    // An upgrade may have left a worker out.
    case.running.nodes[1].kubelet = OLD.to_owned();
    case.running.nodes[2].kubelet = "v1.34.1".to_owned();
    assert!(case.warnings().contains("kubelet on node3 is v1.34.1, and the cluster was brought to v1.34.4 before"));
    let mut own = Case::of(1, 1, OLD);
    own.running.applied = Some(applied(OLD));
    own.running.nodes[1].kubelet = "v1.34.1".to_owned();
    assert!(has(&own.steps(), "node2/upgrade.kubelet"));
    // All of them, so that what runs alone would allow it.
    let mut all = Case::of(1, 1, PATCH);
    all.running.applied = Some(applied("v1.35.4"));
    assert!(all.refused().contains("was brought to v1.35.4 before, and the bundle has v1.34.8, which is older"));
}

#[test]
fn the_act_names_the_images_that_its_control_plane_has_afterwards() {
    let plan = Case::of(1, 1, MINOR).steps();
    let acts: Vec<&KubeadmUpgrade> = plan
        .steps
        .iter()
        .flat_map(|step| &step.ops)
        .filter_map(|op| if let Op::Act(Act::KubeadmUpgrade(act)) = op { Some(act) } else { None })
        .collect();
    let [first, worker] = acts.as_slice() else { panic!("{acts:?}") };
    assert_eq!(first.images["kube-apiserver"], format!("registry.k8s.io/kube-apiserver:{MINOR}"));
    assert!(first.images["etcd"].starts_with("registry.k8s.io/etcd:3.6."));
    assert!(worker.images.is_empty() && worker.version == MINOR);
}

#[test]
fn the_whole_plan_of_two_control_planes_and_a_worker() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../golden/upgrade");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        insta::assert_snapshot!("minor", Case::of(2, 1, MINOR).steps().render());
        insta::assert_snapshot!("patch", Case::of(1, 1, PATCH).steps().render());
    });
}
