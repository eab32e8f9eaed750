//! `create` and `join` over many hosts: what waits for what, and what fails with whom.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::net::IpAddr;

use crate::common::{Site, fleet_text, node_facts, text};
use kubexm_plan::cluster_facts::{AppliedCluster, Component, EtcdMember, NodeFacts, applied};
use kubexm_plan::facts::Leftover;
use kubexm_plan::lint::{self, Order};
use kubexm_plan::op::{NodeDelete, Op};
use kubexm_plan::{BundleRecord, ClusterFacts, Plan, Probe, Step, StepId, Undo};
use kubexm_recipes::{RecipeError, add_node, sample};
use kubexm_spec::cluster::{InternalKind, LoadBalancerMode, SecretSource};
use kubexm_spec::{Digest, ExitCode};
use serde_json::{Value, json};

#[track_caller]
fn checked(plan: Plan) -> Plan {
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    plan
}

fn plan(site: &Site) -> Plan {
    checked(site.create().unwrap())
}

fn step<'p>(plan: &'p Plan, id: &str) -> &'p Step {
    plan.step(&StepId(id.to_owned())).unwrap_or_else(|| panic!("the plan has no {id}"))
}

/// Whether one step must have succeeded before another.
fn before(plan: &Plan, earlier: &str, later: &str) -> bool {
    let at = |id: &str| plan.steps.iter().position(|s| s.id.0 == id).unwrap_or_else(|| panic!("the plan has no {id}"));
    Order::of(plan).is_before(at(earlier), at(later))
}

fn hosts_block(plan: &Plan, host: &str) -> Vec<String> {
    match &step(plan, &format!("{host}/os.hosts")).ops[0] {
        Op::HostsBlock(block) => block.lines.clone(),
        other => panic!("{other}"),
    }
}

#[test]
fn further_control_planes_join_one_at_a_time_and_workers_wait_for_none_of_them() {
    let plan = plan(&Site::of(sample::fleet(3, 2)));
    assert!(before(&plan, "node1/control-plane.init", "node2/join.node"));
    assert!(before(&plan, "node1/join.register-node2", "node3/join.node"));
    for worker in ["node4/join.node", "node5/join.node"] {
        assert!(before(&plan, "node1/control-plane.init", worker));
        for other in ["node2/join.node", "node3/join.node", "node1/network.flannel", "node4/join.node"] {
            assert!(other == worker || !before(&plan, other, worker), "{worker} waits for {other}");
        }
    }
}

#[test]
fn hosts_are_prepared_side_by_side_and_take_from_the_depot_once_it_serves() {
    let plan = plan(&Site::of(sample::fleet(2, 1)));
    assert!(before(&plan, "node1/depot.serve", "node3/store.fill"));
    for of_another in ["node1/runtime.programs", "node2/os.stamp", "node1/images.pause"] {
        assert!(!before(&plan, of_another, "node3/images.pause"), "{of_another}");
    }
    let depots = |id: &str| match &step(&plan, id).ops[0] {
        Op::Blobs(blobs) => blobs.depots.clone(),
        other => panic!("{other}"),
    };
    let taken = depots("node3/store.fill").unwrap();
    assert_eq!((taken.urls[0].as_str(), taken.ca.as_str()), ("https://10.77.0.11:5443", "/etc/kubexm/registry-ca.crt"));
    assert!(before(&plan, "node3/store.trust", "node3/store.fill"));
    assert_eq!(depots("node1/store.fill"), None);
}

#[test]
fn programs_and_images_of_a_host_need_not_wait_for_each_other_and_init_waits_for_both() {
    let plan = plan(&Site::new());
    assert!(!before(&plan, "node1/images.etcd", "node1/kubernetes.programs"));
    assert!(!before(&plan, "node1/kubernetes.programs", "node1/images.etcd"));
    for needed in ["node1/images.etcd", "node1/depot.serve", "node1/kubernetes.kubelet", "node1/control-plane.config"] {
        assert!(before(&plan, needed, "node1/control-plane.init"), "{needed}");
    }
    assert!(!before(&plan, "node1/kubernetes.helm", "node1/control-plane.init"));
}

#[test]
fn steps_for_a_worker_fail_with_it_and_the_cluster_waits_only_for_their_end() {
    let plan = plan(&Site::of(sample::fleet(1, 2)));
    for id in ["node1/join.await-node2", "node1/join.register-node2", "node1/check.ready-node2"] {
        assert_eq!((step(&plan, id).host.as_str(), step(&plan, id).domain()), ("node1", "node2"), "{id}");
    }
    let settled: Vec<&str> = step(&plan, "node1/check.pods").after_end.iter().map(|id| id.0.as_str()).collect();
    assert_eq!(settled, ["node1/check.ready-node2", "node1/check.ready-node3"]);
    let delete = Undo::Act { act: NodeDelete { node: "node2".to_owned() }.into() };
    assert_eq!(step(&plan, "node1/join.await-node2").undo, delete);
    assert_eq!(
        step(&plan, "node1/join.register-node2").undo,
        Undo::WithParent { step: StepId("node1/join.await-node2".to_owned()) }
    );
}

#[test]
fn a_control_plane_fails_with_all_and_is_labelled_and_its_node_can_be_rolled_back() {
    let plan = plan(&Site::of(sample::fleet(2, 0)));
    assert!(before(&plan, "node1/check.ready-node2", "node1/check.pods"));
    let register = step(&plan, "node1/join.register-node2").render();
    assert!(register.contains("label app.kubernetes.io/managed-by=kubexm"), "{register}");
    assert!(before(&plan, "node2/join.node", "node2/kubeconfig.users"));
    // Both make a pod of the same name.
    assert!(before(&plan, "node1/check.network", "node2/check.network"));
}

#[test]
fn labels_of_cluster_yaml_and_the_role_reach_a_workers_node() {
    let mut cluster = sample::fleet(1, 1);
    cluster.hosts[1].labels.insert("rack".to_owned(), "a1".to_owned());
    let text = plan(&Site::of(cluster)).render();
    for wanted in ["node node2 with label rack=a1", "node node2 with label node-role.kubernetes.io/worker="] {
        assert!(text.contains(wanted), "{wanted}");
    }
}

#[test]
fn control_planes_that_are_workers_too_have_no_taint() {
    let mut cluster = sample::fleet(3, 0);
    cluster.role_groups.worker = cluster.role_groups.control_plane.clone();
    let plan = plan(&Site::of(cluster));
    assert!(fleet_text(&plan, "node3/join.node").contains("taints: []"));
    assert!(step(&plan, "node1/join.register-node3").render().contains("without taint"));
    assert!(step(&plan, "node1/check.pods").after_end.is_empty());
}

#[test]
fn a_host_that_only_serves_the_registry_is_no_node() {
    let mut cluster = sample::fleet(1, 1);
    cluster.hosts.push(sample::host("store", 20));
    cluster.role_groups.registry = vec!["store".to_owned()];
    let plan = plan(&Site::of(cluster));
    let own: Vec<&str> = plan.steps.iter().filter(|s| s.host == "store").map(|s| s.id.0.as_str()).collect();
    assert_eq!(own, ["store/os.stamp", "store/os.hostname", "store/os.hosts", "store/store.fill", "store/depot.serve"]);
    assert!(before(&plan, "store/depot.serve", "node1/store.fill"));
    assert!(!plan.hosts[2].optional);
}

#[test]
fn without_a_load_balancer_the_control_planes_name_has_all_their_addresses_the_first_ones_first() {
    let plan = plan(&Site::of(sample::fleet(2, 1)));
    let lines = ["10.77.0.11 lb.demo.kubexm.internal".to_owned(), "10.77.0.12 lb.demo.kubexm.internal".to_owned()];
    for host in ["node1", "node2", "node3"] {
        assert!(hosts_block(&plan, host).ends_with(&lines), "{host}: {:?}", hosts_block(&plan, host));
    }
}

#[test]
fn a_worker_with_a_proxy_asks_itself_first_and_joins_through_a_control_plane() {
    for (kind, pod) in [(InternalKind::Haproxy, "kubexm-haproxy"), (InternalKind::Nginx, "kubexm-nginx")] {
        let mut cluster = sample::fleet(2, 1);
        cluster.load_balancer.mode = LoadBalancerMode::Internal { kind, vip: None, port: 6443, interface: None };
        let plan = plan(&Site::of(cluster));
        let direct = ["10.77.0.11 lb.demo.kubexm.internal".to_owned(), "10.77.0.12 lb.demo.kubexm.internal".to_owned()];
        let own = "127.0.0.1 lb.demo.kubexm.internal".to_owned();
        for host in ["node1", "node2", "node3"] {
            let lines = hosts_block(&plan, host);
            assert!(lines.ends_with(&direct), "{host}: {lines:?}");
            let first = lines.iter().find(|line| line.ends_with("lb.demo.kubexm.internal"));
            assert_eq!(first == Some(&own), host == "node3", "{host}: {lines:?}");
        }
        let runs = |step: &&kubexm_plan::Step| step.id.0.ends_with("/balancer.run");
        let hosts: Vec<&str> = plan.steps.iter().filter(runs).map(|step| step.host.as_str()).collect();
        assert_eq!(hosts, ["node3"], "control planes have the port themselves");
        assert!(before(&plan, "node3/join.node", "node3/balancer.run"));
        assert!(before(&plan, "node2/join.node", "node3/balancer.run"), "it begins with back-ends that serve");
        assert!(before(&plan, "node3/balancer.run", "node1/check.ready-node3"));
        // Another back-end must not restart the pod: its manifest does not know them.
        let manifest = text(&plan, &format!("/etc/kubernetes/manifests/{pod}.yaml"));
        assert!(!manifest.contains("10.77.0.1") && manifest.contains("hostNetwork: true"), "{manifest}");
        let kubeadm = text(&plan, "/etc/kubexm/kubeadm.yaml");
        for wanted in ["controlPlaneEndpoint: lb.demo.kubexm.internal:6443", "- 127.0.0.1", "- lb.demo.kubexm.internal"]
        {
            assert!(kubeadm.replace('"', "").contains(wanted), "{wanted}:\n{kubeadm}");
        }
    }
}

fn behind_a_balancer(port: u16) -> Plan {
    let mut cluster = sample::fleet(2, 1);
    cluster.load_balancer.mode = LoadBalancerMode::at(IpAddr::from([10, 77, 0, 100]), port);
    cluster.load_balancer.domain = Some("api.example".to_owned());
    plan(&Site::of(cluster))
}

#[test]
fn behind_a_balancer_workers_use_its_address_and_control_planes_their_own_port() {
    let plan = behind_a_balancer(6443);
    assert!(hosts_block(&plan, "node3").ends_with(&["10.77.0.100 api.example".to_owned()]));
    assert!(hosts_block(&plan, "node2").contains(&"10.77.0.11 api.example".to_owned()));
    assert!(!hosts_block(&plan, "node2").contains(&"10.77.0.100 api.example".to_owned()));
    let kubeadm = text(&plan, "/etc/kubexm/kubeadm.yaml");
    for wanted in ["controlPlaneEndpoint: api.example:6443", "- api.example", "- 10.77.0.100"] {
        assert!(kubeadm.replace('"', "").contains(wanted), "{wanted}:\n{kubeadm}");
    }
}

#[test]
fn behind_a_balancer_with_a_port_of_its_own_everybody_goes_through_it() {
    let plan = behind_a_balancer(8443);
    for host in ["node1", "node2", "node3"] {
        assert!(hosts_block(&plan, host).ends_with(&["10.77.0.100 api.example".to_owned()]), "{host}");
    }
    assert!(text(&plan, "/etc/kubexm/kubeadm.yaml").contains("controlPlaneEndpoint: api.example:8443"));
    assert!(fleet_text(&plan, "node3/join.node").contains("apiServerEndpoint: 10.77.0.11:6443"));
    assert!(text(&plan, "flannel").contains("\"8443\""));
}

#[test]
fn secrets_of_a_join_are_placeholders_and_a_worker_gets_no_certificate_key() {
    let plan = plan(&Site::of(sample::fleet(2, 1)));
    let (control_plane, worker) = (fleet_text(&plan, "node2/join.node"), fleet_text(&plan, "node3/join.node"));
    for hole in ["\"{{slot:join-token}}\"", "\"{{slot:ca-cert-hash}}\"", "\"{{slot:certificate-key}}\""] {
        assert!(control_plane.contains(hole), "{hole}:\n{control_plane}");
    }
    assert!(!worker.contains("certificate"), "{worker}");
}

#[test]
fn adding_a_control_plane_does_not_change_what_the_cluster_was_made_with() {
    let of = |control_planes| {
        let plan = plan(&Site::of(sample::fleet(control_planes, 0)));
        text(&plan, "/etc/kubexm/kubeadm.yaml").to_owned()
    };
    assert_eq!(of(1), of(3));
}

#[test]
fn a_node_with_its_resolver_elsewhere_gets_a_kubelet_patch() {
    let mut site = Site::of(sample::fleet(1, 2));
    site.facts.get_mut("node3").unwrap().nameservers = Some(vec![IpAddr::from([127, 0, 0, 53])]);
    site.facts.get_mut("node3").unwrap().resolved_nameservers = Some(vec![IpAddr::from([10, 77, 0, 1])]);
    let plan = plan(&site);
    let patch = text(&plan, "/etc/kubexm/patches/kubeletconfiguration+merge.yaml");
    assert!(patch.contains("resolvConf: /run/systemd/resolve/resolv.conf"), "{patch}");
    assert!(fleet_text(&plan, "node3/join.node").contains("directory: /etc/kubexm/patches"));
    assert!(!fleet_text(&plan, "node2/join.node").contains("patches"));
    assert!(before(&plan, "node3/join.patch", "node3/join.node"));
}

#[test]
fn where_one_node_has_no_resolver_dns_asks_those_of_the_others() {
    let mut site = Site::of(sample::fleet(1, 1));
    site.facts.get_mut("node2").unwrap().nameservers = Some(Vec::new());
    let plan = plan(&site);
    assert!(text(&plan, "coredns").contains("forward . 10.77.0.1"), "{}", text(&plan, "coredns"));
}

#[test]
fn steps_of_add_node_are_a_part_of_those_of_create() {
    let mut site = Site::of(sample::fleet(2, 2));
    site.join_all_but("node4");
    let create = plan(&site);
    let added = checked(add_node(&site.cx(), &kubexm_plan::ClusterFacts::default(), &["node4".to_owned()]).unwrap());
    for step in &added.steps {
        let same = create.step(&step.id).unwrap_or_else(|| panic!("{} is no step of create", step.id));
        assert_eq!((&same.ops, &same.probe, &same.domain), (&step.ops, &step.probe, &step.domain), "{}", step.id);
    }
    for of_others in ["node1/control-plane.init", "node2/join.node", "node3/images.pause", "node1/depot.serve"] {
        assert!(added.step(&StepId(of_others.to_owned())).is_none(), "{of_others}");
    }
    for (earlier, later) in [
        ("node4/os.hosts", "node4/join.node"),
        ("node1/os.hosts", "node4/join.node"),
        ("node4/images.pause", "node4/join.node"),
        ("node4/join.node", "node1/join.register-node4"),
    ] {
        assert!(before(&added, earlier, later), "{earlier} {later}");
    }
    assert!(!added.slots.keys().any(|slot| slot.0 == "certificate-key" || slot.0 == "registry-key"));
}

#[test]
fn a_control_plane_can_be_added_and_brings_its_slots() {
    let mut site = Site::of(sample::fleet(3, 1));
    site.join_all_but("node3");
    let added = checked(add_node(&site.cx(), &kubexm_plan::ClusterFacts::default(), &["node3".to_owned()]).unwrap());
    assert!(added.slots.keys().any(|slot| slot.0 == "certificate-key"));
    assert!(before(&added, "node1/join.register-node3", "node1/check.pods"));
}

#[test]
fn the_hosts_to_add_are_those_that_are_not_in_the_cluster() {
    let mut site = Site::of(sample::fleet(1, 2));
    site.join_all_but("node2");
    let absent = |site: &Site, running: &ClusterFacts| kubexm_recipes::absent(&site.cx(), running).unwrap();
    let unknown = ClusterFacts::default();
    assert_eq!(absent(&site, &unknown), ["node2"]);
    // One that has joined in a run that nobody continues is not in the record.
    let recorded = |hosts: &[&str]| {
        let hosts: Vec<Value> = hosts.iter().map(|name| json!({"name": name})).collect();
        let bundle =
            BundleRecord { manifest: Digest::of("bundle"), signers: Default::default(), date: None, sequence: None };
        let applied = AppliedCluster {
            schema: applied::SCHEMA.to_owned(),
            name: "demo".to_owned(),
            id: None,
            kubernetes: "v1.34.4".to_owned(),
            cluster_sha256: Digest::of("cluster.yaml"),
            cluster: json!({"spec": {"hosts": hosts}}),
            bundle,
            program: "kubexm-install 0".to_owned(),
        };
        let node = |name: &str, unschedulable| NodeFacts { unschedulable, ..node_facts(name) };
        let nodes = vec![node("node1", false), node("node3", false)];
        ClusterFacts { applied: Some(applied), nodes, ..ClusterFacts::default() }
    };
    assert_eq!(absent(&site, &recorded(&["node1", "node2", "node3"])), ["node2"]);
    assert_eq!(absent(&site, &recorded(&["node1"])), ["node2", "node3"]);
    let mut half_deleted = recorded(&["node1"]);
    half_deleted.nodes[1].unschedulable = true;
    assert_eq!(absent(&site, &half_deleted), ["node2"], "a deletion that was interrupted is not taken back");
    assert_eq!(absent(&site, &recorded(&["node3"])), ["node2"], "the first control plane is the business of create");
    site.facts.get_mut("node3").unwrap().stamp.as_mut().unwrap().cluster = "another".to_owned();
    assert_eq!(absent(&site, &unknown), ["node2", "node3"]);
}

#[test]
fn a_host_that_is_added_later_is_not_recorded_before() {
    let mut site = Site::of(sample::fleet(1, 3));
    site.join_all_but("node3");
    let other = site.facts.get_mut("node4").unwrap();
    (other.joined, other.stamp) = (false, None);
    let plan = checked(add_node(&site.cx(), &ClusterFacts::default(), &["node3".to_owned()]).unwrap());
    let map: Value = serde_json::from_str(text(&plan, "kubexm-cluster")).unwrap();
    let applied = AppliedCluster::of_config_map(&map).unwrap();
    let names: Vec<&str> = applied.cluster["spec"]["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| host["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["node1", "node2", "node3"]);
    assert_eq!(applied.cluster["spec"]["roleGroups"]["worker"], json!(["node2", "node3"]));
    // The next one is still to be added.
    let running = ClusterFacts { applied: Some(applied), ..ClusterFacts::default() };
    site.join_all_but("node4");
    assert_eq!(kubexm_recipes::absent(&site.cx(), &running).unwrap(), ["node4"]);
}

#[test]
fn join_refuses_what_it_cannot_add() {
    let mut site = Site::of(sample::fleet(1, 1));
    let none = add_node(&site.cx(), &kubexm_plan::ClusterFacts::default(), &["node2".to_owned()]).unwrap_err();
    assert_eq!(none.exit_code(), ExitCode::Preflight);
    assert!(none.to_string().contains("kubexm-install create"), "{none}");
    site.join_all_but("node2");
    for host in ["node1", "node9"] {
        let error = add_node(&site.cx(), &kubexm_plan::ClusterFacts::default(), &[host.to_owned()]).unwrap_err();
        assert!(matches!(&error, RecipeError::CannotJoin { host: named, .. } if named == host), "{error}");
    }
}

#[test]
fn nodes_are_added_to_the_observed_cluster_and_only_with_its_own_minor() {
    let mut site = Site::of(sample::fleet(1, 1));
    site.join_all_but("node2");
    let add = |running: ClusterFacts| add_node(&site.cx(), &running, &["node2".to_owned()]);
    let seen = |id, version: &str| ClusterFacts {
        id: Some(id),
        server_version: Some(version.to_owned()),
        ..ClusterFacts::default()
    };
    add(seen(sample::CLUSTER_ID, "v1.34.1")).expect("another patch");
    let other = kubexm_plan::ClusterId::from_random([9; 16]);
    let refused = add(seen(other, "v1.34.4")).unwrap_err();
    let text = refused.to_string();
    assert_eq!(refused.exit_code(), ExitCode::Preflight, "{text}");
    assert!(text.contains(&other.to_string()) && text.contains(&sample::CLUSTER_ID.to_string()), "{text}");
    for version in ["v1.33.13", "v1.35.0"] {
        let refused = add(seen(sample::CLUSTER_ID, version)).unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::Preflight, "{refused}");
        assert!(refused.to_string().contains(version) && refused.to_string().contains("v1.34.4"), "{refused}");
    }
    // A control plane says what its version is.
    let text = add(seen(sample::CLUSTER_ID, "v1.33.1\nall is well\u{1b}[2J")).unwrap_err().to_string();
    assert!(text.contains("v1.33.1") && text.lines().count() == 1 && !text.contains('\u{1b}'), "{text:?}");
}

/// An upgrade has stopped between its control planes.
#[test]
fn between_two_versions_a_control_plane_is_added_with_one_of_them_and_a_worker_with_the_older_one() {
    let mut site = Site::of(sample::fleet(3, 1));
    site.join_all_but("node3");
    site.facts.get_mut("node4").unwrap().joined = false;
    let server = |node: &str, version: &str| Component {
        name: "kube-apiserver".to_owned(),
        node: node.to_owned(),
        ready: true,
        image: format!("registry.k8s.io/kube-apiserver:{version}"),
        restarts: 0,
    };
    let add = |versions: [&str; 2], asked: &str, new: &str| {
        let components = vec![server("node1", versions[0]), server("node2", versions[1])];
        let running = ClusterFacts { server_version: Some(asked.to_owned()), components, ..ClusterFacts::default() };
        add_node(&site.cx(), &running, &[new.to_owned()])
    };
    // The bundle has v1.34.4.
    for asked in ["v1.34.4", "v1.33.13"] {
        add(["v1.34.4", "v1.33.13"], asked, "node3").expect("a control plane");
        let refused = add(["v1.34.4", "v1.33.13"], asked, "node4").unwrap_err().to_string();
        assert!(refused.contains("runs Kubernetes v1.33.13"), "{refused}");
    }
    let judged_on = |plan: &Plan| match step(plan, "node1/check.pods").probe.as_ref().map(|timed| &timed.probe) {
        Some(Probe::PodsRunning { new_nodes, .. }) => new_nodes.clone(),
        other => panic!("{other:?}"),
    };
    let of_both = add(["v1.35.0", "v1.34.4"], "v1.35.0", "node4").expect("a worker of the older version");
    assert_eq!(judged_on(&of_both), ["node4"], "what the others have is not in this bundle");
    // What a worker runs under that name is no API server.
    let components = vec![server("node1", "v1.34.4"), server("node4", "evil")];
    let running = ClusterFacts { components, ..ClusterFacts::default() };
    add_node(&site.cx(), &running, &["node3".to_owned()]).expect("no version of an API server");
    let of_one = add(["v1.34.4", "v1.34.4"], "v1.34.4", "node4").expect("a worker");
    assert!(judged_on(&of_one).is_empty());
    assert!(add(["v1.33.13", "v1.33.13"], "v1.33.13", "node3").is_err());
}

#[test]
fn what_was_applied_is_recorded_without_secrets_and_an_added_node_brings_it_back_on_a_rollback() {
    let mut site = Site::of(sample::fleet(1, 1));
    site.cluster.hosts[1].password = Some(SecretSource::Env("NODE_PASSWORD".to_owned()));
    let create = plan(&site);
    let map: serde_json::Value = serde_json::from_str(text(&create, "kubexm-cluster")).unwrap();
    let record = AppliedCluster::of_config_map(&map).unwrap();
    assert_eq!((record.id, record.kubernetes.as_str()), (Some(sample::CLUSTER_ID), "v1.34.4"));
    assert_eq!((record.cluster_sha256, record.bundle.manifest), (create.cluster, create.bundle.unwrap()));
    assert_eq!(record.cluster["spec"]["hosts"][1]["name"], "node2");
    assert!(!text(&create, "kubexm-cluster").contains("NODE_PASSWORD"));
    assert!(before(&create, "node1/check.pods", "node1/record.applied"));
    site.join_all_but("node2");
    let added = checked(add_node(&site.cx(), &ClusterFacts::default(), &["node2".to_owned()]).unwrap());
    assert_eq!(step(&added, "node1/record.applied").undo, kubexm_plan::Undo::RestoreBefore);
}

#[test]
fn sixty_workers_make_a_plan_that_passes() {
    let plan = plan(&Site::of(sample::fleet(3, 60)));
    assert!(plan.fleet_concurrency >= 30, "sixty hosts go in more than two rounds");
    assert_eq!(step(&plan, "node1/check.pods").after_end.len(), 60);
}

#[test]
fn a_host_that_was_lost_is_not_added_beside_its_own_member_nor_where_it_is_the_first() {
    let mut site = Site::of(sample::fleet(3, 0));
    site.join_all_but("node3");
    let member = |name: &str| EtcdMember {
        id: name.to_owned(),
        name: name.to_owned(),
        peer_urls: Vec::new(),
        version: None,
        healthy: name != "node3",
        learner: false,
        database: None,
    };
    let running = ClusterFacts { etcd: ["node1", "node2", "node3"].map(member).to_vec(), ..ClusterFacts::default() };
    let new = ["node3".to_owned()];
    let refused = add_node(&site.cx(), &running, &new).unwrap_err().to_string();
    assert!(refused.contains("`kubexm-install delete-node node3 -f cluster.yaml`"), "{refused}");
    let without = ClusterFacts { etcd: ["node1", "node2"].map(member).to_vec(), ..ClusterFacts::default() };
    add_node(&site.cx(), &without, &new).unwrap();
    // One of another name has the address of a lost one. A control plane says the name: it is shown, and no part of the command.
    let mut other = member("lost; reboot\n");
    other.peer_urls = vec!["https://10.77.0.13:2380".to_owned()];
    other.healthy = false;
    let running_with = ClusterFacts { etcd: vec![member("node1"), other], ..ClusterFacts::default() };
    let refused = add_node(&site.cx(), &running_with, &new).unwrap_err().to_string();
    assert!(refused.contains("`kubexm-install delete-node node3 -f cluster.yaml`"), "{refused}");
    assert!(refused.contains(r"(lost; reboot\n)") && !refused.contains('\n'), "{refused}");
    // One that is in the cluster, and one whose join was interrupted.
    let named = ["node2".to_owned()];
    add_node(&site.cx(), &running, &named).unwrap();
    let stamp = site.facts["node2"].stamp.clone();
    site.facts.get_mut("node3").unwrap().stamp = stamp;
    let refused = add_node(&site.cx(), &running, &new).unwrap_err().to_string();
    assert!(refused.contains("or reset by hand"), "nothing of kubeadm is on it: {refused}");
    let what = "/etc/kubernetes/manifests/etcd.yaml".to_owned();
    site.facts.get_mut("node3").unwrap().leftovers = vec![Leftover { what, ours: true }];
    add_node(&site.cx(), &running, &new).unwrap();
    // One that works, and has lost its stamp.
    site.facts.get_mut("node3").unwrap().stamp = None;
    let mut works = running.clone();
    works.etcd[2].healthy = true;
    let refused = add_node(&site.cx(), &works, &new).unwrap_err().to_string();
    assert!(refused.contains("that works (node3)") && !refused.contains("delete-node"), "{refused}");

    site.join_all_but("node1");
    let error = add_node(&site.cx(), &ClusterFacts::default(), &["node1".to_owned()]).unwrap_err();
    assert!(error.to_string().contains("Put node2 first in spec.roleGroups"), "{error}");
    site.cluster.role_groups.registry = vec!["node1".to_owned()];
    site.cluster.role_groups.control_plane.rotate_left(1);
    checked(add_node(&site.cx(), &ClusterFacts::default(), &["node1".to_owned()]).unwrap());
}
