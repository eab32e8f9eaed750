//! A host must leave the cluster in an order that works, and not at all where the others need it.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

mod corefile;
mod own_etcd;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{member, node_facts};
use kubexm_plan::cluster_facts::{AppliedCluster, ETCD, Gap};
use kubexm_plan::facts::Stamp;
use kubexm_plan::ledger::{Outcome, Record, SCHEMA};
use kubexm_plan::op::{Content, File, HostsBlock, KubeadmJoin, StateDir, Unit};
use kubexm_plan::{ClusterFacts, ClusterId, Facts, ObservedState, Op, StepId, Undo, lint};
use kubexm_recipes::{DeleteContext, Deletion, Drain, RecipeError, ResetHost, delete_node, sample};
use kubexm_spec::cluster::{ExternalKind, InternalKind, LoadBalancerMode};
use kubexm_spec::{Cluster, Digest, ExitCode};
use serde_json::json;

/// A cluster of control planes and workers, as its hosts report it.
struct Site {
    cluster: Cluster,
    facts: BTreeMap<String, Facts>,
    ledgers: BTreeMap<String, Vec<Record>>,
    running: ClusterFacts,
    missing: Vec<String>,
}

impl Site {
    fn of(control_planes: u8, workers: u8) -> Self {
        let mut cluster = sample::fleet(control_planes, workers);
        // A registry host of its own, so that every node may go.
        cluster.hosts.push(sample::host("store", 99));
        cluster.role_groups.registry = vec!["store".to_owned()];
        let mut facts = sample::all_facts(&cluster);
        for facts in facts.values_mut() {
            let cluster = cluster.name.clone();
            facts.stamp = Some(Stamp { cluster, run: "r".to_owned(), id: Some(ID), bundle: None, adopted: false });
            facts.joined = true;
        }
        let ledgers = cluster.hosts.iter().map(|host| (host.name.clone(), ledger(&cluster, &host.name))).collect();
        let nodes =
            cluster.hosts.iter().filter(|host| host.name != "store").map(|host| node_facts(&host.name)).collect();
        let etcd = cluster.role_groups.control_plane.iter().map(|name| member(name)).collect();
        let running = ClusterFacts { id: Some(ID), nodes, etcd, ..ClusterFacts::default() };
        Self { cluster, facts, ledgers, running, missing: Vec::new() }
    }

    fn delete(&self, hosts: &[&str]) -> Result<Deletion, RecipeError> {
        let deleted: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let reached = self.cluster.hosts.iter().filter(|host| !self.missing.contains(&host.name));
        let hosts = reached.map(|host| ResetHost {
            name: &host.name,
            roles: self.cluster.roles(&host.name),
            facts: &self.facts[&host.name],
            ledger: &self.ledgers[&host.name],
        });
        delete_node(&DeleteContext {
            cluster: &self.cluster,
            cluster_digest: Digest::of("yaml"),
            running: &self.running,
            deleted: &deleted,
            hosts: hosts.collect(),
            missing: &self.missing,
            drain: Drain::default(),
        })
    }

    fn clean(&mut self, host: &str) {
        self.facts.get_mut(host).expect("a host").stamp = None;
        self.ledgers.insert(host.to_owned(), Vec::new());
        self.running.nodes.retain(|node| node.name != host);
        self.running.etcd.retain(|member| member.name != host);
        for other in self.ledgers.values_mut() {
            for op in other.iter_mut().flat_map(|record| &mut record.ops) {
                if let Op::HostsBlock(block) = op {
                    block.lines.retain(|line| !line.ends_with(&format!(" {host}")));
                }
            }
        }
    }
}

const ID: ClusterId = ClusterId::from_random([7; 16]);

/// What a create leaves, in short.
fn ledger(cluster: &Cluster, host: &str) -> Vec<Record> {
    let name = cluster.control_plane_name();
    let planes = cluster.hosts.iter().filter(|host| cluster.role_groups.control_plane.contains(&host.name));
    let lines = cluster.hosts.iter().map(|host| format!("{} {}", host.address, host.name));
    let lines = lines.chain(planes.map(|host| format!("{} {name}", host.address))).collect();
    let unit = |name: &str| Unit {
        name: name.to_owned(),
        enabled: true,
        running: Some(true),
        loaded: vec![format!("/etc/systemd/system/{name}")],
        reloaded: Vec::new(),
    };
    let file = |name: &str| File {
        path: format!("/etc/systemd/system/{name}"),
        content: Content::Text { digest: Digest::of(name) },
        mode: 0o644,
    };
    let join = KubeadmJoin {
        config: Digest::of("join"),
        cri_socket: "unix:///run/containerd/containerd.sock".to_owned(),
        control_plane: false,
        external_etcd: false,
        ignore: Vec::new(),
        slots: Vec::new(),
    };
    let absent = json!({"path": "/var/lib/kubelet", "entry": {"is": "absent"}});
    let steps: Vec<(&str, Vec<(Op, serde_json::Value)>)> = vec![
        ("os.hosts", vec![(HostsBlock { lines, own_name: host.to_owned() }.into(), json!("as it was"))]),
        ("kubernetes.folders", vec![(StateDir::at("/var/lib/kubelet").into(), absent)]),
        (
            "kubelet.unit",
            vec![(file("kubelet.service").into(), json!("no file")), (unit("kubelet.service").into(), json!("off"))],
        ),
        ("join.node", vec![(join.into(), json!("notBegun"))]),
    ];
    let record = |(step, ops): (&str, Vec<(Op, serde_json::Value)>)| {
        let (ops, before): (Vec<Op>, Vec<_>) = ops.into_iter().unzip();
        Record {
            schema: SCHEMA,
            run: "create".to_owned(),
            sequence: 0,
            step: StepId(format!("{host}/{step}")),
            ops,
            undo: Undo::RestoreBefore,
            before: before.into_iter().map(|before| ObservedState::opaque(&before, false)).collect(),
            outcome: Outcome::Done,
        }
    };
    steps.into_iter().map(record).collect()
}

fn ids(deletion: &Deletion) -> Vec<&str> {
    deletion.plan.steps.iter().map(|step| step.id.0.as_str()).collect()
}

#[test]
fn a_control_plane_leaves_the_names_and_etcd_before_it_stops() {
    let deletion = Site::of(3, 1).delete(&["node1"]).expect("a plan");
    let (checked, _) = lint::check(deletion.plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../golden/delete-node");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("plan", checked.plan().render()));
}

#[test]
fn what_cannot_be_rolled_back_comes_after_everything_that_can_be_done_before_it() {
    let deletion = Site::of(3, 2).delete(&["node3", "node4", "node5"]).expect("a plan");
    let all = ids(&deletion);
    let at = |id: &str| all.iter().position(|found| *found == id).unwrap_or_else(|| panic!("{id} of {all:?}"));
    // What is evicted from one does not come to another that leaves, too.
    let cordoned = all.iter().rposition(|id| id.contains("cordon")).expect("a cordon");
    assert_eq!(all.iter().filter(|id| id.contains("cordon")).count(), 3);
    assert!(cordoned < all.iter().position(|id| id.contains("drain")).expect("a drain"), "{all:?}");
    // Workers first, each after the other.
    assert!(at("node1/delete.drain-node4") < at("node1/delete.drain-node3"));
    let drained = all.iter().rposition(|id| id.contains("drain")).expect("a drain");
    let first = deletion.plan.steps.iter().position(|step| matches!(step.undo, Undo::Irreversible { .. }));
    assert_eq!(first, Some(at("node1/delete.member-node3")));
    assert!(drained < at("node1/delete.hosts") && at("node1/delete.hosts") < at("node4/reset.stop"));
    assert!(at("node5/reset.network") < at("node1/delete.member-node3"));
    assert!(at("node1/delete.object-node4") < at("node4/reset.forget"));
    assert_eq!(deletion.warnings, Vec::<String>::new());
}

#[test]
fn of_two_control_planes_one_may_go_and_the_operator_is_warned() {
    let deletion = Site::of(2, 1).delete(&["node2"]).expect("a plan");
    assert!(deletion.warnings[0].contains("node1 will have the only member of etcd"), "{:?}", deletion.warnings);
}

#[test]
fn a_host_that_the_cluster_needs_is_refused_by_name() {
    let refused = |site: &Site, hosts: &[&str]| {
        let error = site.delete(hosts).expect_err("a refusal");
        (error.exit_code(), error.to_string())
    };
    let mut time = Site::of(2, 2);
    time.cluster.system.ntp_servers = vec!["node3".to_owned()];
    let mut down = Site::of(3, 1);
    down.running.etcd[1].healthy = false;
    let mut blind = Site::of(3, 1);
    blind.running.etcd.clear();
    blind.running.gaps = vec![Gap { host: "node1".into(), what: ETCD.into(), why: "timed out".into() }];
    let mut silent = Site::of(2, 1);
    silent.running.nodes.clear();
    let mut away = Site::of(2, 2);
    away.missing = vec!["node4".to_owned()];
    let mut other = Site::of(2, 1);
    other.facts.get_mut("node3").expect("a host").stamp.as_mut().expect("a stamp").id =
        Some(ClusterId::from_random([8; 16]));
    for (site, hosts, code, wanted) in [
        (Site::of(2, 1), &["node9"][..], ExitCode::Config, "node9 is not a host of cluster"),
        (Site::of(1, 1), &["node1"], ExitCode::Preflight, "no control plane would be left; `kubexm-install reset`"),
        (Site::of(2, 1), &["node1", "node2"], ExitCode::Preflight, "no control plane would be left"),
        (Site::of(2, 1), &["store"], ExitCode::Preflight, "it serves the registry"),
        (time, &["node3"], ExitCode::Preflight, "spec.system.ntpServers names it"),
        (down, &["node3"], ExitCode::Preflight, "of the 2 members that stay, these are not healthy: node2"),
        (blind, &["node3"], ExitCode::Preflight, "the members of etcd could not be observed"),
        (silent, &["node3"], ExitCode::Preflight, "the nodes of the cluster could not be observed"),
        (away, &["node3"], ExitCode::HostUnreachable, "node4 cannot be reached, and stay in the cluster"),
        (other, &["node3"], ExitCode::Preflight, "`kubexm-install reset --only node3` resets it"),
    ] {
        let (found, text) = refused(&site, hosts);
        assert!(text.contains(wanted) && text.contains("nothing was changed") | (code == ExitCode::Config), "{text}");
        assert_eq!(found, code, "{text}");
    }
    // A control plane says what the members are called.
    let mut strange = Site::of(3, 1);
    strange.running.etcd[1].healthy = false;
    strange.running.etcd[1].name = "node2\nall is well\u{1b}[2J".to_owned();
    let (_, text) = refused(&strange, &["node3"]);
    assert!(text.contains("not healthy: node2") && text.lines().count() == 1 && !text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn a_dead_control_plane_may_go_though_its_own_member_is_not_healthy() {
    let mut site = Site::of(3, 1);
    site.running.etcd[2].healthy = false;
    site.running.nodes[2].ready = false;
    site.missing = vec!["node3".to_owned()];
    let deletion = site.delete(&["node3"]).expect("a plan");
    let all = ids(&deletion);
    assert!(all.contains(&"node1/delete.member-node3") && all.contains(&"node1/delete.object-node3"), "{all:?}");
    assert!(!all.iter().any(|id| id.starts_with("node3/") || id.contains("drain")), "{all:?}");
    // It works, and only this controller does not reach it: it would register again.
    site.running.nodes[2].ready = true;
    let text = site.delete(&["node3"]).expect_err("a refusal").to_string();
    assert!(text.contains("works as a member of the cluster"), "{text}");
}

#[test]
fn of_a_host_that_has_left_nothing_is_planned() {
    let mut site = Site::of(2, 1);
    site.clean("node3");
    assert_eq!(ids(&site.delete(&["node3"]).expect("a plan")), Vec::<&str>::new());
}

#[test]
fn a_host_that_was_skipped_is_cleaned_up_when_it_is_back() {
    let mut site = Site::of(2, 1);
    let (facts, ledger) = (site.facts["node3"].clone(), site.ledgers["node3"].clone());
    site.clean("node3");
    site.facts.insert("node3".to_owned(), facts);
    site.ledgers.insert("node3".to_owned(), ledger);
    let deletion = site.delete(&["node3"]).expect("a plan");
    let all = ids(&deletion);
    assert_eq!((all.first(), all.last()), (Some(&"node3/reset.stop"), Some(&"node3/reset.forget")), "{all:?}");
    // Its kubelet may have registered it again meanwhile.
    assert!(all.contains(&"node1/delete.object-node3"), "{all:?}");
}

/// As a worker with a proxy has it.
fn with_proxies(site: &mut Site) {
    let mode = LoadBalancerMode::Internal { kind: InternalKind::Haproxy, vip: None, port: 6443, interface: None };
    site.cluster.load_balancer.mode = mode;
    let path = "/etc/kubexm/haproxy/haproxy.cfg".to_owned();
    for worker in &site.cluster.role_groups.worker {
        let ledger = site.ledgers.get_mut(worker).expect("a ledger");
        let content = Content::Text { digest: Digest::of("with all control planes") };
        let mut record = ledger[0].clone();
        record.step = StepId(format!("{worker}/balancer.run"));
        record.ops = vec![File { path: path.clone(), content, mode: 0o644 }.into()];
        ledger.push(record);
    }
}

#[test]
fn a_control_plane_leaves_the_back_ends_of_the_proxies_before_it_stops_and_a_worker_does_not_touch_them() {
    let mut site = Site::of(3, 2);
    with_proxies(&mut site);
    let deletion = site.delete(&["node2", "node5"]).expect("a plan");
    lint::check(deletion.plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let all = ids(&deletion);
    let changed: Vec<&&str> = all.iter().filter(|id| id.ends_with("/delete.balancer")).collect();
    assert_eq!(changed, [&"node4/delete.balancer"], "node5 leaves itself, and the others have none");
    let at = |id: &str| all.iter().position(|found| *found == id).unwrap_or_else(|| panic!("{id} of {all:?}"));
    assert!(at("node4/delete.balancer") < at("node1/delete.member-node2"));
    assert!(at("node4/delete.balancer") < at("node2/reset.stop"));
    let config = deletion.plan.texts.values().find(|text| text.contains("backend")).expect("a configuration");
    let servers: Vec<&str> = config.lines().map(str::trim).filter(|line| line.starts_with("server ")).collect();
    let servers: BTreeSet<&str> = servers.into_iter().collect();
    assert_eq!(servers, BTreeSet::from(["server node1 10.77.0.11:6443", "server node3 10.77.0.13:6443"]));
    // `create` with the cluster.yaml that no longer names it has nothing to change then.
    let mut without = sample::fleet(3, 2);
    without.load_balancer.mode = site.cluster.load_balancer.mode.clone();
    without.hosts.retain(|host| host.name != "node2" && host.name != "node5");
    for group in
        [&mut without.role_groups.control_plane, &mut without.role_groups.etcd, &mut without.role_groups.worker]
    {
        group.retain(|name| name != "node2" && name != "node5");
    }
    let again = sample::plan(&without).expect("a plan");
    assert!(again.texts.values().any(|text| text == config));

    assert!(!ids(&site.delete(&["node5"]).expect("a plan")).iter().any(|id| id.contains("balancer")));
}

/// As the hosts of a load balancer have it: worker node4, and a host that is nothing else.
fn behind_keepalived(kind: ExternalKind, config: &str) -> Site {
    let mut site = Site::of(3, 2);
    site.cluster.load_balancer.mode = LoadBalancerMode::External {
        kind,
        vip: [10, 77, 0, 100].into(),
        port: 6443,
        interface: None,
        virtual_router_id: None,
    };
    site.cluster.role_groups.load_balancer = vec!["node4".to_owned(), "node5".to_owned()];
    for host in ["node4", "node5"] {
        let ledger = site.ledgers.get_mut(host).expect("a ledger");
        let content = Content::Text { digest: Digest::of("with all control planes") };
        let mut record = ledger[0].clone();
        record.step = StepId(format!("{host}/balancer.serve"));
        let path = config.to_owned();
        record.ops = vec![File { path, content, mode: 0o644 }.into()];
        ledger.push(record);
    }
    site
}

const HAPROXY: (ExternalKind, &str) = (ExternalKind::KubexmKh, "/etc/kubexm/balancer/haproxy.cfg");
const NGINX: (ExternalKind, &str) = (ExternalKind::KubexmKn, "/etc/kubexm/balancer/nginx.conf");

#[test]
fn a_control_plane_leaves_the_back_ends_of_the_load_balancer_before_it_stops() {
    for (kind, config) in [HAPROXY, NGINX] {
        leaves_the_back_ends(kind, config);
    }
}

fn leaves_the_back_ends(kind: ExternalKind, config: &str) {
    let mut site = behind_keepalived(kind, config);
    for node in site.running.nodes.iter_mut().filter(|node| node.name == "node4") {
        node.ready = false;
    }
    let deletion = site.delete(&["node2"]).expect("a plan");
    lint::check(deletion.plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let all = ids(&deletion);
    let changed: Vec<&&str> = all.iter().filter(|id| id.ends_with("/delete.balancer")).collect();
    assert_eq!(changed, [&"node4/delete.balancer", &"node5/delete.balancer"], "the proxy does not depend on kubelet");
    let at = |id: &str| all.iter().position(|found| *found == id).unwrap_or_else(|| panic!("{id} of {all:?}"));
    assert!(at("node4/delete.balancer") < at("node1/delete.member-node2"));
    let reloads = |op: &Op| matches!(op, Op::Unit(unit) if unit.reloaded == [config]);
    assert!(
        deletion
            .plan
            .steps
            .iter()
            .filter(|step| step.id.0.ends_with("balancer"))
            .all(|step| step.ops.iter().any(reloads))
    );
    assert_eq!(
        deletion.warnings.iter().filter(|text| text.contains("load balancer")).count(),
        0,
        "{:?}",
        deletion.warnings
    );
}

#[test]
fn the_last_host_of_the_load_balancer_is_not_deleted_and_another_one_is() {
    let site = behind_keepalived(HAPROXY.0, HAPROXY.1);
    let deletion = site.delete(&["node4"]).expect("a plan");
    assert!(
        deletion.warnings.iter().any(|text| text.contains("node4 has the load balancer")),
        "{:?}",
        deletion.warnings
    );
    let refused = site.delete(&["node4", "node5"]).expect_err("no host would have the address").to_string();
    assert!(refused.contains("no host of the load balancer would be left"), "{refused}");
}

#[test]
fn a_worker_that_is_not_ready_does_not_keep_a_control_plane_in_the_cluster() {
    let mut site = Site::of(3, 2);
    with_proxies(&mut site);
    for node in site.running.nodes.iter_mut().filter(|node| node.name == "node4") {
        node.ready = false;
    }
    let deletion = site.delete(&["node2"]).expect("a plan");
    let step = |host: &str| {
        let id = StepId(format!("{host}/delete.balancer"));
        deletion.plan.step(&id).unwrap_or_else(|| panic!("no {id}"))
    };
    assert_eq!((step("node4").ops.len(), step("node4").probe.is_some()), (1, false), "it gets the file only");
    assert_eq!((step("node5").ops.len(), step("node5").probe.is_some()), (2, true));
    let named: Vec<&String> = deletion.warnings.iter().filter(|text| text.contains("not Ready")).collect();
    assert!(matches!(named.as_slice(), [one] if one.starts_with("node4 is not Ready")), "{:?}", deletion.warnings);
}

#[test]
fn a_host_that_nodes_still_pull_from_stays() {
    let mut site = Site::of(3, 2);
    let document = serde_json::json!({"spec": {"roleGroups": {"registry": ["node5"]}}});
    let mut applied = AppliedCluster {
        schema: kubexm_plan::cluster_facts::applied::SCHEMA.to_owned(),
        name: site.cluster.name.clone(),
        id: Some(ID),
        kubernetes: "v1.34.4".to_owned(),
        cluster_sha256: Digest::of("yaml"),
        cluster: document,
        bundle: kubexm_plan::BundleRecord {
            manifest: Digest::of("m"),
            signers: BTreeSet::new(),
            date: None,
            sequence: None,
        },
        program: "kubexm-install".to_owned(),
    };
    site.running.applied = Some(applied.clone());
    let refused = site.delete(&["node5"]).expect_err("a refusal").to_string();
    assert!(refused.contains("nodes still pull from it") && refused.contains("kubexm-install create"), "{refused}");
    applied.cluster = serde_json::json!({"spec": {"roleGroups": {"registry": ["store"]}}});
    site.running.applied = Some(applied);
    site.delete(&["node5"]).expect("a plan");
}

#[test]
fn a_registry_host_that_was_lost_may_go_and_stays_in_the_record_and_one_that_works_may_not() {
    let mut site = Site::of(3, 0);
    site.cluster.hosts.retain(|host| host.name != "store");
    site.cluster.role_groups.registry = vec!["node1".to_owned()];
    site.cluster.role_groups.control_plane.rotate_left(1);
    let refused = site.delete(&["node1"]).expect_err("a refusal").to_string();
    assert!(refused.contains("it serves the registry"), "{refused}");
    let (facts, ledger) = (site.facts["node1"].clone(), site.ledgers["node1"].clone());
    site.facts.get_mut("node1").expect("a host").stamp = None;
    site.ledgers.insert("node1".to_owned(), Vec::new());
    let refused = site.delete(&["node1"]).expect_err("it has lost its books, and works").to_string();
    assert!(refused.contains("it serves the registry"), "{refused}");
    site.facts.insert("node1".to_owned(), facts);
    site.ledgers.insert("node1".to_owned(), ledger);
    site.running.nodes[0].ready = false;
    site.running.etcd[0].healthy = false;
    for is_back in [false, true] {
        if is_back {
            site.missing.clear();
            site.facts.get_mut("node1").expect("a host").stamp = None;
            site.ledgers.insert("node1".to_owned(), Vec::new());
        } else {
            site.missing = vec!["node1".to_owned()];
        }
        let deletion = site.delete(&["node1"]).expect("a plan");
        lint::check(deletion.plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
        let all = ids(&deletion);
        assert!(all.contains(&"node2/delete.member-node1"), "{all:?}");
        assert!(
            deletion.warnings.iter().any(|text| text.contains("kubexm-install add-node node1")),
            "{:?}",
            deletion.warnings
        );
    }
}

#[test]
fn a_control_plane_that_works_is_not_deleted_where_nothing_on_it_is_known() {
    let mut site = Site::of(3, 0);
    site.facts.get_mut("node2").expect("a host").stamp = None;
    site.ledgers.insert("node2".to_owned(), Vec::new());
    let refused = site.delete(&["node2"]).expect_err("nothing on it would be stopped").to_string();
    assert!(refused.contains("its member of etcd works"), "{refused}");
    let at = site.running.etcd.iter().position(|member| member.name == "node2").expect("a member");
    site.running.etcd[at].healthy = false;
    site.delete(&["node2"]).expect("a plan");
}
