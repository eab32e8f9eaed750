//! Members that join an etcd of kubexm's which runs.

use kubexm_plan::op::{Act, EtcdEndpoints, EtcdServers, File};
use kubexm_plan::{ClusterFacts, Op, Plan, Step, Undo, etcd, lint};
use kubexm_recipes::{Recipe, RecipeError, preflight, preflight_before_join, sample};
use kubexm_spec::cluster::{Audit, EtcdKind};

use crate::common::{Site, member, node_facts};

const NEW: [&str; 2] = ["etcd2", "etcd3"];

/// A cluster whose hosts `new` have no member yet.
fn site(new: &[&str]) -> (Site, ClusterFacts) {
    let mut site = Site::of(sample::with_etcd());
    let mut before = Site::of(sample::with_etcd());
    before.cluster.role_groups.etcd.retain(|name| !new.contains(&name.as_str()));
    let plan = before.create().expect("a plan");
    let config = plan.texts.values().find(|text| text.contains("kind: InitConfiguration")).expect("kubeadm's config");
    site.join_all_but("");
    let first = site.cluster.role_groups.control_plane[0].clone();
    for (name, facts) in &mut site.facts {
        facts.joined = name.starts_with("node");
        facts.etcd_formed =
            (name.starts_with("etcd") && !new.contains(&name.as_str())).then(|| "id\n3.6.5\n".to_owned());
        if new.contains(&name.as_str()) {
            facts.stamp = None;
        }
        if *name == first {
            facts.kubeadm_config_text = Some(config.clone());
            facts.kubeadm_config = Some(kubexm_spec::Digest::of(config));
        }
    }
    let nodes = site.cluster.hosts.iter().filter(|host| host.name.starts_with("node"));
    let running = ClusterFacts {
        nodes: nodes.map(|host| node_facts(&host.name)).collect(),
        etcd: before.cluster.role_groups.etcd.iter().map(|name| member(name)).collect(),
        ..ClusterFacts::default()
    };
    (site, running)
}

fn add(site: &Site, running: &ClusterFacts, new: &[&str]) -> Result<Plan, RecipeError> {
    let new: Vec<String> = new.iter().map(|name| (*name).to_owned()).collect();
    kubexm_recipes::add_node(&site.cx(), running, &new)
}

fn step<'p>(plan: &'p Plan, id: &str) -> &'p Step {
    plan.steps.iter().find(|step| step.id.0 == id).unwrap_or_else(|| panic!("no {id} in\n{}", plan.render()))
}

/// etcd's configuration on a host.
fn config<'p>(plan: &'p Plan, host: &str) -> &'p str {
    let is_config = |op: &&Op| matches!(op, Op::File(File { path, .. }) if path == etcd::CONFIG);
    let op = step(plan, &format!("{host}/etcd.serve")).ops.iter().find(is_config).expect("a configuration");
    &plan.texts[&op.text().expect("a text")]
}

fn initial(config: &str) -> (Vec<String>, String) {
    let config: serde_json::Value = serde_saphyr::from_str(config).expect("YAML");
    let value = |key: &str| config[key].as_str().expect("a text");
    let members =
        value("initial-cluster").split(',').filter_map(|one| one.split('=').next().map(str::to_owned)).collect();
    (members, value("initial-cluster-state").to_owned())
}

fn named(members: &[&str], state: &str) -> (Vec<String>, String) {
    (members.iter().map(|name| (*name).to_owned()).collect(), state.to_owned())
}

#[test]
fn members_join_one_after_the_other_and_then_api_servers_ask_all_of_them() {
    let (site, running) = site(&NEW);
    let plan = add(&site, &running, &NEW).expect("a plan");
    let order = lint::Order::of(&plan);
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let at = |id: &str| plan.steps.iter().position(|step| step.id.0 == id).unwrap_or_else(|| panic!("no {id}"));
    let chain = [
        "node1/etcd.add-etcd2",
        "etcd2/etcd.serve",
        "node1/etcd.promote-etcd2",
        "etcd2/etcd.formed",
        "node1/etcd.add-etcd3",
        "etcd3/etcd.serve",
        "node1/etcd.promote-etcd3",
        "etcd3/etcd.formed",
        "node1/etcd.endpoints",
        "node1/etcd.servers",
    ];
    for pair in chain.windows(2) {
        assert!(order.is_earlier(at(pair[0]), at(pair[1])), "{pair:?}\n{}", plan.render());
    }
    // Each joins those that are there, and no others: etcd compares the count.
    assert_eq!(initial(config(&plan, "etcd2")), named(&["etcd1", "etcd2"], "existing"));
    assert_eq!(initial(config(&plan, "etcd3")), named(&["etcd1", "etcd2", "etcd3"], "existing"));
    // A rollback takes the vote away before the host stops its member.
    for id in ["node1/etcd.add-etcd2", "node1/etcd.promote-etcd2"] {
        assert!(
            matches!(&step(&plan, id).undo, Undo::Act { act: Act::MemberRemove(act) } if act.name == "etcd2"),
            "{id}"
        );
    }
    let urls =
        ["etcd1", "etcd2", "etcd3"].map(|name| format!("https://{}:2379", site.cluster.host(name).unwrap().address));
    for op in plan.steps.iter().flat_map(|step| &step.ops) {
        match op {
            Op::EtcdServers(EtcdServers { servers, .. }) => assert_eq!(servers, &urls),
            Op::EtcdEndpoints(EtcdEndpoints { endpoints }) => assert_eq!(endpoints, &urls),
            _ => {}
        }
    }
    // Members that run are left alone, but for what they have started with: a create goes on with that.
    let of_first = plan.steps.iter().filter(|step| step.host == "etcd1" && step.id.0.contains("/etcd."));
    assert_eq!(of_first.map(|step| step.id.0.as_str()).collect::<Vec<_>>(), ["etcd1/etcd.started"]);
    let kept = step(&plan, "etcd1/etcd.started").ops.iter().find_map(Op::text).expect("a text");
    assert!(plan.texts[&kept].ends_with("\nstarted new etcd1=https://10.77.0.21:2380\n"), "{}", plan.texts[&kept]);
    assert!(order.is_earlier(at("etcd1/etcd.started"), at("node1/etcd.add-etcd2")));
}

#[test]
fn of_several_new_hosts_only_the_named_one_joins() {
    let (site, running) = site(&NEW);
    let plan = add(&site, &running, &["etcd3"]).expect("a plan");
    assert_eq!(initial(config(&plan, "etcd3")), named(&["etcd1", "etcd3"], "existing"));
    assert!(!plan.steps.iter().any(|step| step.id.0.contains("etcd2/etcd.") || step.id.0.ends_with("-etcd2")));
    // Without a name, all of them.
    let (plan, _) = Recipe::AddNode(&[]).plan(&site.cx(), &running).expect("a plan");
    assert_eq!(initial(config(&plan, "etcd3")).0, ["etcd1", "etcd2", "etcd3"]);
}

#[test]
fn a_member_that_has_joined_keeps_its_configuration() {
    let (mut site, running) = site(&["etcd3"]);
    let joined = add(&site, &running, &["etcd3"]).expect("a plan");
    let formed = step(&joined, "etcd3/etcd.formed").ops.iter().find_map(Op::text).expect("a text");
    let kept = |site: &Site, host: &str| config(&site.create().expect("a plan"), host).to_owned();
    let before = kept(&site, "etcd1");
    site.facts.get_mut("etcd3").expect("a host").etcd_formed = Some(joined.texts[&formed].clone());
    assert_eq!(kept(&site, "etcd3"), config(&joined, "etcd3"));
    // The others have started with fewer, as their file says since a deletion; without it, with all of cluster.yaml.
    assert_eq!(initial(&before).1, "new");
}

#[test]
fn preflight_refuses_a_create_and_lets_the_hosts_be_added() {
    let (site, _) = site(&["etcd3"]);
    let found = |findings: Vec<kubexm_recipes::Finding>| findings.iter().map(ToString::to_string).collect::<Vec<_>>();
    let create = found(preflight(&site.cx()));
    assert!(create.iter().any(|one| one.contains("etcd3") && one.contains("add-node")), "{create:#?}");
    assert_eq!(found(preflight_before_join(&site.cx())), Vec::<String>::new());
}

#[test]
fn a_member_that_the_cluster_still_lists_is_deleted_first() {
    let (site, mut running) = site(&["etcd3"]);
    let mut old = member("etcd3");
    old.healthy = false;
    running.etcd.push(old);
    let error = add(&site, &running, &["etcd3"]).unwrap_err().to_string();
    assert!(error.contains("delete-node etcd3"), "{error}");
    // One that an interrupted run has added goes on.
    let last = running.etcd.last_mut().expect("a member");
    (last.name, last.learner) = (String::new(), true);
    last.peer_urls = vec![format!("https://{}:2380", site.cluster.host("etcd3").expect("a host").address)];
    add(&site, &running, &["etcd3"]).expect("a plan");
}

#[test]
fn a_node_that_is_there_gets_no_member() {
    let (mut site, running) = site(&["etcd3"]);
    site.cluster.role_groups.etcd.push("node1".to_owned());
    let error = add(&site, &running, &["node1"]).unwrap_err();
    assert!(matches!(&error, RecipeError::CannotJoin { .. }), "{error}");
    let found: Vec<String> = preflight_before_join(&site.cx()).iter().map(ToString::to_string).collect();
    assert!(found.iter().any(|one| one.contains("node1") && one.contains("no member of etcd")), "{found:#?}");
}

/// A run that added etcd3 has ended after its member was healthy, and before API servers got the list.
fn cut_off() -> (Site, ClusterFacts) {
    let (mut site, mut running) = site(&["etcd3"]);
    let stamp = site.facts["etcd1"].stamp.clone();
    let facts = site.facts.get_mut("etcd3").expect("a host");
    (facts.stamp, facts.etcd_formed) = (stamp, Some("id\n3.6.5\n".to_owned()));
    let address = site.cluster.host("etcd3").expect("a host").address.clone();
    let mut added = member("etcd3");
    added.peer_urls = vec![format!("https://{address}:2380")];
    running.etcd.push(added);
    (site, running)
}

fn ids(plan: &Plan) -> Vec<&str> {
    let of_list = |id: &&str| id.ends_with("/etcd.endpoints") || id.ends_with("/etcd.servers");
    plan.steps.iter().map(|step| step.id.0.as_str()).filter(of_list).collect()
}

#[test]
fn a_create_gives_api_servers_the_members_that_a_run_which_was_cut_off_has_added() {
    let (site, running) = cut_off();
    for findings in [preflight(&site.cx()), preflight_before_join(&site.cx())] {
        assert_eq!(findings.iter().map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    }
    let (plan, _) = Recipe::Create.plan(&site.cx(), &running).expect("a plan");
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(ids(&plan), ["node1/etcd.endpoints", "node1/etcd.servers"]);
    let urls =
        ["etcd1", "etcd2", "etcd3"].map(|name| format!("https://{}:2379", site.cluster.host(name).unwrap().address));
    for op in plan.steps.iter().flat_map(|step| &step.ops) {
        match op {
            Op::EtcdServers(EtcdServers { servers, .. }) => assert_eq!(servers, &urls),
            Op::EtcdEndpoints(EtcdEndpoints { endpoints }) => assert_eq!(endpoints, &urls),
            _ => {}
        }
    }
    let order = lint::Order::of(&plan);
    let at = |id: &str| plan.steps.iter().position(|step| step.id.0 == id).unwrap_or_else(|| panic!("no {id}"));
    for pair in
        ["etcd3/etcd.formed", "node1/control-plane.init", "node1/etcd.endpoints", "node1/etcd.servers"].windows(2)
    {
        assert!(order.is_earlier(at(pair[0]), at(pair[1])), "{pair:?}\n{}", plan.render());
    }
    // kubeadm's config and its record are changed as one: a text that is there before would be taken for an edit by hand.
    let writes = |op: &Op| matches!(op, Op::File(file) if file.path == "/etc/kubexm/kubeadm.yaml");
    assert!(!plan.steps.iter().flat_map(|step| &step.ops).any(writes), "{}", plan.render());
}

#[test]
fn a_join_completes_the_list_as_well() {
    let (mut site, running) = cut_off();
    let worker = site.cluster.role_groups.worker.last().expect("a worker").clone();
    let facts = site.facts.get_mut(&worker).expect("a host");
    (facts.stamp, facts.joined) = (None, false);
    let plan = add(&site, &running, &[&worker]).expect("a plan");
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(ids(&plan), ["node1/etcd.endpoints", "node1/etcd.servers"]);
    // With a list that is right a join of a worker leaves API servers alone.
    let (mut site, running) = self::site(&[]);
    (site.facts.get_mut(&worker).expect("a host").joined, site.facts.get_mut(&worker).expect("a host").stamp) =
        (false, None);
    assert_eq!(ids(&add(&site, &running, &[&worker]).expect("a plan")), Vec::<&str>::new());
}

#[test]
fn a_create_looks_at_the_list_of_every_api_server_after_kubelet_and_kubeadm_are_as_planned() {
    let (site, running) = site(&[]);
    let (plan, _) = Recipe::Create.plan(&site.cx(), &running).expect("a plan");
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(ids(&plan), ["node1/etcd.endpoints", "node1/etcd.servers"]);
    let order = lint::Order::of(&plan);
    let at = |id: &str| plan.steps.iter().position(|step| step.id.0 == id).unwrap_or_else(|| panic!("no {id}"));
    // A kubelet that was stopped is started before anything is asked of the API server.
    assert!(order.is_earlier(at("node1/control-plane.init"), at("node1/etcd.endpoints")));
    // A cluster that is created has the list from kubeadm.
    let fresh = Site::of(sample::with_etcd()).create().expect("a plan");
    assert_eq!(ids(&fresh), Vec::<&str>::new());
}

#[test]
fn a_member_that_etcd_does_not_list_with_a_vote_is_given_to_no_api_server() {
    let (site, running) = cut_off();
    let refused = |change: &dyn Fn(&mut ClusterFacts)| {
        let mut running = running.clone();
        change(&mut running);
        let error = Recipe::Create.plan(&site.cx(), &running).map(|_| ()).expect_err("refused").to_string();
        assert!(error.contains("etcd3"), "{error}");
        error
    };
    let absent = refused(&|running| running.etcd.truncate(2));
    assert!(absent.contains("delete-node etcd3"), "{absent}");
    let without_vote = refused(&|running| running.etcd[2].learner = true);
    assert!(without_vote.contains("vote"), "{without_vote}");
    let ill = refused(&|running| running.etcd[2].healthy = false);
    assert!(ill.contains("kubexm-etcd"), "{ill}");
    refused(&|running| running.etcd[2].peer_urls = vec!["https://10.9.9.9:2380".to_owned()]);
    refused(&|running| running.etcd.clear());
}

#[test]
fn other_settings_beside_a_member_and_members_without_data_are_refused_still() {
    let (site, _) = cut_off();
    let found = |change: &dyn Fn(&mut Site)| {
        let mut site = Site { facts: site.facts.clone(), ..Site::of(site.cluster.clone()) };
        change(&mut site);
        preflight(&site.cx()).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(found(&|_| ()), "");
    let mode = found(&|site| {
        site.cluster.kubernetes.as_mut().expect("Kubernetes").proxy_mode = kubexm_spec::cluster::ProxyMode::Nftables;
    });
    assert!(mode.contains("etcd.external.endpoints"), "{mode}");
    let empty = found(&|site| site.facts.get_mut("etcd3").expect("a host").etcd_formed = None);
    assert!(empty.contains("etcd3") && empty.contains("add-node"), "{empty}");
    // etcd2 was in the list, and is not in cluster.yaml: no member is taken from a node that stays.
    let fewer = found(&|site| site.cluster.role_groups.etcd.retain(|name| name != "etcd2"));
    assert!(fewer.contains("etcd.external.endpoints"), "{fewer}");
}

#[test]
fn control_planes_join_at_once_where_no_member_of_etcd_comes_with_them() {
    let joins_in_order = |kind: EtcdKind, audit: bool, joined: &[&str]| {
        let mut cluster = sample::fleet(3, 0);
        cluster.etcd.kind = kind;
        if kind == EtcdKind::Kubexm {
            cluster.role_groups.etcd.clone_from(&cluster.role_groups.control_plane);
        }
        cluster.kubernetes.as_mut().unwrap().audit = audit.then(Audit::default);
        let mut site = Site::of(cluster);
        for name in joined {
            site.facts.get_mut(*name).unwrap().joined = true;
        }
        let plan = site.create().unwrap();
        let at = |id: &str| plan.steps.iter().position(|step| step.id.0 == id).unwrap();
        let order = lint::Order::of(&plan);
        assert!(order.is_earlier(at("node1/control-plane.init"), at("node2/join.node")));
        order.is_earlier(at("node2/join.node"), at("node3/join.node"))
    };
    assert!(joins_in_order(EtcdKind::Kubeadm, false, &[]));
    assert!(!joins_in_order(EtcdKind::Kubexm, false, &[]));
    // Fresh ones have nothing that a bad policy could take away; of those that run, one API server after the other gets it.
    assert!(!joins_in_order(EtcdKind::Kubexm, true, &[]));
    assert!(joins_in_order(EtcdKind::Kubexm, true, &["node1", "node2", "node3"]));
}
