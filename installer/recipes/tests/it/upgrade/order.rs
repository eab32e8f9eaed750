//! The order of the steps, what is upgraded together, and what an upgrade leaves as it was.
#![allow(clippy::panic, reason = "tests")]

use super::*;
use crate::common::text;

#[test]
fn content_and_a_snapshot_come_first_then_control_planes_one_by_one_then_the_network_then_workers() {
    let plan = Case::of(3, 2, MINOR).steps();
    for host in ["node2", "node3", "node4", "node5"] {
        assert!(before(&plan, &format!("{host}/store.fill"), "node1/upgrade.snapshot"), "{host}");
        assert!(before(&plan, &format!("{host}/images.kube-proxy"), "node1/upgrade.snapshot"), "{host}");
    }
    for (one, other) in [
        ("node1/upgrade.snapshot", "node1/upgrade.apply"),
        ("node1/upgrade.preflight", "node1/upgrade.apply"),
        ("node1/upgrade.apply", "node1/upgrade.drain-node1"),
        ("node1/upgrade.drain-node1", "node1/runtime.run"),
        ("node1/runtime.run", "node1/upgrade.kubelet"),
        ("node1/upgrade.kubelet", "node1/upgrade.ready-node1"),
        ("node1/upgrade.ready-node1", "node1/upgrade.uncordon-node1"),
        ("node1/upgrade.uncordon-node1", "node2/upgrade.node"),
        ("node1/upgrade.uncordon-node2", "node3/upgrade.node"),
        ("node1/upgrade.uncordon-node3", "node1/network.flannel"),
        ("node1/network.flannel", "node4/upgrade.node"),
        ("node1/upgrade.uncordon-node4", "node5/upgrade.node"),
        ("node1/upgrade.uncordon-node5", "node1/record.applied"),
    ] {
        assert!(before(&plan, one, other), "{one} is not before {other}");
    }
}

/// While nothing that runs has changed: a host that fails in it stops nobody's turn. It is asked last, before there is no way back.
#[test]
fn every_node_has_the_new_kubeadm_before_the_first_turn() {
    for plan in [Case::of(2, 2, MINOR).steps(), adopted::adopted(2, 2, MINOR).steps()] {
        for node in ["node1", "node2", "node3", "node4"] {
            let kubeadm = format!("{node}/upgrade.kubeadm");
            assert!(before(&plan, &format!("{node}/store.fill"), &kubeadm), "{node}");
            assert!(before(&plan, &kubeadm, "node1/upgrade.staged"), "{node}");
            assert!(
                !before(&plan, &format!("{node}/images.kube-proxy"), &kubeadm),
                "{node}: it waits for nothing else"
            );
        }
        assert!(before(&plan, "node1/upgrade.snapshot", "node1/upgrade.preflight"));
        assert!(before(&plan, "node1/upgrade.preflight", "node1/upgrade.apply"));
    }
}

/// kubeadm writes the API server's manifest anew; a second upgrade finds it there.
#[test]
fn a_cluster_that_was_made_without_a_flag_of_ours_gets_it_with_its_upgrade() {
    const FLAG: &str = "shutdown-watch-termination-grace-period";
    for had in ["kind: ClusterConfiguration\n", FLAG] {
        let mut case = Case::of(2, 1, PATCH);
        case.site.facts.values_mut().for_each(|facts| facts.kubeadm_config_text = Some(had.to_owned()));
        let plan = case.steps();
        for path in ["/etc/kubexm/kubeadm-upgrade.yaml", "/etc/kubexm/kubeadm.yaml"] {
            assert_eq!(text(&plan, path).matches(FLAG).count(), 1, "{path}");
        }
    }
    // kubeadm has done the upgrade, without it, in a run that ended before the kubelet.
    let mut case = Case::of(2, 1, PATCH);
    let mut made = Site::of(case.site.cluster.clone());
    let had = |facts: &mut kubexm_plan::Facts, text: &str| facts.kubeadm_config_text = Some(text.to_owned());
    made.facts.values_mut().for_each(|facts| had(facts, "kind: ClusterConfiguration\n"));
    let without = text(&made.create().expect("a plan"), "/etc/kubexm/kubeadm.yaml").to_owned();
    for facts in case.site.facts.values_mut() {
        had(facts, &without);
        facts.kubeadm_config = Some(kubexm_spec::Digest::of(&without));
    }
    assert_eq!(text(&case.steps(), "/etc/kubexm/kubeadm.yaml"), without);
}

/// With the certificate that kubeadm has renewed, and the bundle's version; its pods are looked at in the end.
#[test]
fn kube_vip_is_upgraded_in_the_turn_of_its_control_plane() {
    let mut case = Case::of(2, 1, MINOR);
    let vip = Some([10, 77, 0, 100].into());
    let mut cluster = case.site.cluster.clone();
    cluster.load_balancer.mode =
        LoadBalancerMode::Internal { kind: InternalKind::KubeVip, vip, port: API_PORT, interface: None };
    let facts = std::mem::take(&mut case.site.facts);
    case.site = Site::of(cluster);
    case.site.facts = facts;
    case.running = running(&case.site.cluster);
    let plan = case.steps();
    for (one, other) in [
        ("node1/upgrade.ready-node1", "node1/balancer.run"),
        ("node1/balancer.run", "node2/upgrade.node"),
        ("node1/upgrade.ready-node2", "node2/balancer.run"),
    ] {
        assert!(before(&plan, one, other), "{one} is not before {other}");
    }
    assert!(!has(&plan, "node3/balancer.run"));
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
    let starts = |worker: u8| at(format!("node{worker}/upgrade.node"));
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
    let warned = case.warnings();
    assert!(warned.contains("node4 is cordoned, not by an upgrade") && !warned.contains("node3"), "{warned}");

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
    // Whether they are whole was perhaps never asked.
    assert!(before(&plan, "node1/upgrade.etcd", "node1/upgrade.uncordon-node1"));
    assert!(before(&plan, "node1/upgrade.ready-node2", "node1/upgrade.uncordon-node2"));
    let worker = plan.steps.iter().find(|step| step.id.0 == "node1/upgrade.uncordon-node2").expect("a step");
    assert_eq!((worker.domain(), worker.after_end.len()), ("node2", 0));
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
        ("node1/upgrade.etcd", "node2/upgrade.node"),
        // The last one is asked while workers have their turns, and before the end.
        ("node2/upgrade.static-pods", "node2/upgrade.etcd"),
        ("node2/upgrade.etcd", "node1/check.pods"),
    ] {
        assert!(before(&plan, one, other), "{one} is not before {other}");
    }
    assert!(!before(&plan, "node2/upgrade.etcd", "node3/upgrade.node"));
    assert!(before(&plan, "node1/upgrade.ready-node2", "node1/upgrade.uncordon-node2"));
    let step = plan.steps.iter().find(|step| step.id.0 == "node2/upgrade.static-pods").expect("a step");
    let probe = step.probe.as_ref().expect("a probe");
    let Probe::StaticPodsReady { images, .. } = &probe.probe else { panic!("{probe:?}") };
    assert_eq!(images["kube-scheduler"], format!("registry.k8s.io/kube-scheduler:{MINOR}"));
    assert!(!has(&plan, "node3/upgrade.etcd"), "a worker has no member");
}

/// kubeadm upgrades kube-proxy with the last old control plane. Where that one has died in between, all are new, and kube-proxy is not.
#[test]
fn what_kubeadm_does_with_the_last_control_plane_is_done_with_the_first_one_where_that_is_gone() {
    let upgraded = |kube_proxy: &str| {
        let mut case = Case::of(2, 1, PATCH);
        for component in case.running.components.iter_mut().filter(|component| component.name != "etcd") {
            component.image = component.image.replace(OLD, PATCH);
        }
        case.running.server_version = Some(PATCH.to_owned());
        case.running.kube_proxy = Some(format!("registry.k8s.io/kube-proxy:{kube_proxy}"));
        case.running.nodes.iter_mut().for_each(|node| node.kubelet = PATCH.to_owned());
        case
    };
    let plan = upgraded(OLD).steps();
    assert!(
        has(&plan, "node1/upgrade.apply") && !has(&plan, "node2/upgrade.node") && !has(&plan, "node3/upgrade.node")
    );
    assert!(!has(&plan, "node1/upgrade.drain-node1"), "no pod has to leave for that");
    assert!(!has(&upgraded(PATCH).steps(), "node1/upgrade.apply"));
    // While a control plane is old, it comes with that.
    let mut case = upgraded(OLD);
    case.running.nodes[1].kubelet = OLD.to_owned();
    assert!(!has(&case.steps(), "node1/upgrade.apply"));
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
    settings.set_snapshot_path("../../golden/upgrade");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        insta::assert_snapshot!("minor", Case::of(2, 1, MINOR).steps().render());
        insta::assert_snapshot!("patch", Case::of(1, 1, PATCH).steps().render());
    });
}
