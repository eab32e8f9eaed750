//! What is asked before anything is changed: each refusal by name, each warning.
#![allow(clippy::panic, reason = "tests")]

use kubexm_recipes::preflight_before_upgrade;
use kubexm_spec::Digest;
use kubexm_spec::cluster::{Registry, RegistryKind, Runtime, RuntimeKind};

use super::*;

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
    case.running.nodes.push(node_facts("stray"));
    let refused = case.refused();
    assert!(refused.contains("node3 is in cluster.yaml and not in the cluster"), "{refused}");
    assert!(refused.contains("stray is a node of the cluster and not in cluster.yaml"), "{refused}");
}

/// A control plane that has died in the middle of an upgrade comes back with the version of those that have it already.
#[test]
fn a_control_plane_that_an_upgrade_has_lost_is_added_with_the_bundle_of_the_upgrade() {
    let mut case = Case::of(3, 1, MINOR);
    case.running.nodes.remove(2);
    let before = case.refused();
    assert!(before.contains("node3 is in cluster.yaml and not in the cluster: add it with `kubexm-install add-node` and the bundle that the"), "{before}");
    case.running.nodes[0].kubelet = MINOR.to_owned();
    let refused = case.refused();
    assert!(
        refused.contains(
            "node3 is in cluster.yaml and not in the cluster: add it with `kubexm-install add-node` and this bundle"
        ),
        "{refused}"
    );
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

/// Who reads this pastes what stands between the marks of a command, on the operator's machine.
#[test]
fn what_a_control_plane_calls_its_members_and_pods_is_no_part_of_a_command() {
    for name in ["node2; curl x | sh", "node2`; `curl x | sh`", "$(curl x)"] {
        let mut case = Case::of(3, 1, PATCH);
        (case.running.etcd[1].name, case.running.etcd[1].healthy) = (name.to_owned(), false);
        (case.running.components[2].name, case.running.components[2].ready) = (name.to_owned(), false);
        (case.running.components[3].node, case.running.components[3].ready) = (name.to_owned(), false);
        let refused = case.refused();
        assert!(refused.contains("etcd's member node2") || refused.contains("etcd's member $("), "{refused}");
        let commands: Vec<&str> = refused.split('`').skip(1).step_by(2).collect();
        assert!(commands.len() >= 2 && commands.iter().all(|command| !command.contains("curl")), "{refused}");
    }
    let mut case = Case::of(3, 1, PATCH);
    case.running.etcd[1].healthy = false;
    assert!(case.refused().contains("`kubexm-install delete-node node2`"));
}

#[test]
fn nodes_by_the_thousand_that_a_control_plane_says_are_a_few_lines_and_how_many_more() {
    let mut case = Case::of(1, 1, PATCH);
    case.running.nodes.extend((0..5_000).map(|at| node_facts(&format!("stray{at}"))));
    let refused = case.refused();
    assert!(refused.lines().count() < 300 && refused.contains("- and 4800 more"), "{}", refused.lines().count());
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
    // An image of etcd may have a tag with a v, and so may what a member says of itself.
    case.running.etcd[1].version = Some("v3.6.99".to_owned());
    assert!(case.refused().contains("etcd's member node2 runs v3.6.99"));
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
        leaf: None,
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
fn a_control_plane_whose_settings_cannot_be_compared_is_named() {
    let mut case = Case::of(1, 1, PATCH);
    let found = |case: &Case| {
        let findings = preflight_before_upgrade(&case.site.cx()).into_iter();
        findings.map(|one| one.found).filter(|found| found.contains("cannot be compared")).collect::<Vec<_>>()
    };
    assert_eq!(found(&case), Vec::<String>::new());
    let facts = case.site.facts.get_mut("node1").expect("a host");
    (facts.kubeadm_config, facts.kubeadm_config_text) = (Some(Digest::of("{")), Some("{".to_owned()));
    let one = "settings that cannot be compared: /etc/kubexm/kubeadm.yaml is missing, or is not what kubexm writes";
    assert_eq!(found(&case), [one]);
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

fn with_runtime(kind: RuntimeKind, found: &str) -> Case {
    let mut case = Case::of(1, 1, PATCH);
    let (mut cluster, facts) = (case.site.cluster.clone(), case.site.facts.clone());
    cluster.runtime = Runtime { kind, ..Runtime::default() };
    case.site = Site { facts, ..Site::of(cluster) };
    for node in &mut case.running.nodes {
        (node.runtime, node.runtime_version) = (kind.to_string(), found.to_owned());
    }
    case
}

#[test]
fn cri_o_reads_its_registries_again_before_images_come_and_is_replaced_in_the_turn() {
    let plan = with_runtime(RuntimeKind::CriO, "1.34.1").steps();
    for (one, other) in [
        ("node2/runtime.mirrors", "node2/runtime.reload"),
        ("node2/runtime.reload", "node2/images.kube-proxy"),
        ("node2/images.kube-proxy", "node1/upgrade.staged"),
        ("node1/upgrade.staged", "node2/runtime.programs"),
        ("node2/runtime.run", "node2/upgrade.kubelet"),
    ] {
        assert!(before(&plan, one, other), "{one} is not before {other}");
    }
    assert!(!plan.steps.iter().any(|step| step.id.0.contains("upgrade.drain")), "containers go on while it restarts");
    // What is pinned comes with it: an image of a new repository has to be when it is there.
    let reload = plan.steps.iter().find(|step| step.id.0 == "node2/runtime.reload").expect("a step");
    let written = |op: &Op| matches!(op, Op::File(file) if file.path == "/etc/crio/crio.conf.d/90-kubexm.conf");
    let read = |op: &Op| matches!(op, Op::Unit(unit) if unit.reloaded.len() == 2 && unit.loaded.len() == 2);
    assert!(reload.ops.iter().any(written) && reload.ops.iter().any(read), "{:?}", reload.ops);
}

#[test]
fn docker_is_upgraded_within_its_line_only() {
    let bundled = with_runtime(RuntimeKind::Docker, "24.0.1");
    let plan = bundled.steps();
    assert!(plan.steps.iter().any(|step| step.id.0 == "node2/runtime.run"), "another patch is");
    assert!(!plan.steps.iter().any(|step| step.id.0.contains("upgrade.drain")), "containers go on while it restarts");
    let other = with_runtime(RuntimeKind::Docker, "20.10.24").refused();
    assert!(other.contains("node1 has docker 20.10.24, and the bundle has 24.0"), "{other}");
    assert!(other.contains("name a version of 20.10"), "{other}");
}

#[test]
fn a_cluster_with_isulad_is_not_upgraded() {
    let mut case = Case::of(1, 1, PATCH);
    let mut cluster = case.site.cluster.clone();
    cluster.runtime = Runtime { kind: RuntimeKind::Isulad, ..Runtime::default() };
    cluster.bundle.os = vec!["openeuler-24.03-sp1".to_owned()];
    let mut facts = case.site.facts.clone();
    facts.values_mut().for_each(crate::isulad::host);
    case.site = Site { facts, ..Site::of(cluster) };
    let refused = case.refused();
    for wanted in ["spec.runtime.type", "isulad", "upgrade", "create a cluster of the new bundle"] {
        assert!(refused.contains(wanted), "{refused}");
    }
}

#[test]
fn harbor_stays_where_nodes_pull_from() {
    let of = |registry: Registry| {
        let mut cluster = Cluster { registry, ..sample::fleet(1, 1) };
        cluster.hosts.push(sample::host("store", 30));
        cluster.role_groups.registry = vec!["store".to_owned()];
        cluster
    };
    let harbor = || Registry::of(RegistryKind::Harbor);
    let was = |registry: Registry| {
        let plan = Site::of(of(registry)).create().expect("a plan");
        let map = serde_json::from_str(crate::common::text(&plan, "kubexm-cluster")).expect("JSON");
        Some(AppliedCluster::of_config_map(&map).expect("a record"))
    };
    let case = |now: Registry, applied: Option<AppliedCluster>| {
        let mut case = Case::with(of(now), PATCH);
        case.running.nodes.retain(|node| node.name != "store");
        case.running.applied = applied;
        case
    };
    let plan = case(harbor(), was(harbor())).steps();
    let first = |id: &str| plan.steps.iter().position(|step| step.id.0 == id).unwrap_or_else(|| panic!("no {id}"));
    assert!(first("store/harbor.images") < first("node1/upgrade.apply"), "its content comes before any version");
    let moved = Registry { data_dir: "/srv/other".to_owned(), ..harbor() };
    let other_port = Registry { port: 8443, ..harbor() };
    for (now, before, said) in [
        (moved, harbor(), "spec.registry.dataDir is \"/srv/other\""),
        (other_port, harbor(), "spec.registry.port is 8443"),
        (Registry::of(RegistryKind::Registry), harbor(), "the cluster has \"harbor\""),
        (harbor(), Registry::of(RegistryKind::Registry), "spec.registry.type is \"harbor\""),
    ] {
        let text = case(now, was(before)).refused();
        assert!(text.contains(said) && text.contains("Harbor stays"), "{text}");
    }
    assert!(case(harbor(), None).plan().is_ok(), "nothing says what it was");
}
