//! Kube-OVN and Hybridnet: pod networks that are installed from their charts, and what each needs besides.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use insta::{Settings, assert_snapshot};
use kubexm_plan::cluster_facts::AppliedCluster;
use kubexm_plan::facts::Interface;
use kubexm_plan::op::Op;
use kubexm_plan::{ClusterFacts, Plan, network};
use kubexm_recipes::preflight::Finding;
use kubexm_recipes::{add_node, preflight, sample};
use kubexm_spec::cluster::{Addon, AddonKind, AddonSource, Cluster, NetworkPlugin};
use serde_json::{Value, json};

use crate::addons::{releases, values};
use crate::common::{Site, addon};

fn cluster(plugin: NetworkPlugin, options: Value) -> Cluster {
    let mut cluster = sample::fleet(1, 1);
    cluster.network.plugin = plugin;
    cluster.network.options = options.as_object().unwrap().clone();
    cluster
}

fn created(plugin: NetworkPlugin, options: Value) -> (Site, Plan) {
    let site = Site::of(cluster(plugin, options));
    let plan = site.create().unwrap();
    let (_, warnings) = kubexm_plan::lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, Vec::new());
    (site, plan)
}

fn findings(site: &Site, check: &str) -> Vec<Finding> {
    preflight(&site.cx()).into_iter().filter(|finding| finding.check == check).collect()
}

fn snapshot(name: &str, text: &str) {
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/chart-networks");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| assert_snapshot!(name, text));
}

/// The lines of a rendered plan that are of the network.
fn of_network(plan: &Plan) -> String {
    let steps = plan.steps.iter().filter(|step| step.id.0.contains("/network."));
    let ops = steps.flat_map(|step| {
        let ops: Vec<String> = step.ops.iter().map(|op| format!("  {op}\n")).collect();
        let after: Vec<&str> = step.after.iter().map(|id| id.0.as_str()).collect();
        std::iter::once(format!("{} (after {})\n", step.id.0, after.join(", "))).chain(ops)
    });
    ops.collect()
}

#[test]
fn kube_ovn_gets_the_sites_addresses_a_node_for_its_databases_and_a_folder_for_its_plugins() {
    let (_, plan) = created(NetworkPlugin::KubeOvn, json!({"networking": {"TUNNEL_TYPE": "vxlan"}}));
    let (step, release) = releases(&plan)[0];
    let all = Value::Object(values(&plan, release));
    assert_eq!((&all["MASTER_NODES"], &all["replicaCount"]), (&json!("10.77.0.11"), &json!(1)));
    assert_eq!(all["cni_conf"], json!({"CNI_BIN_DIR": "/opt/cni/kube-ovn"}));
    assert_eq!(all["networking"]["TUNNEL_TYPE"], "vxlan");
    let label = step.ops.iter().find_map(|op| if let Op::NodeLabel(label) = op { Some(label) } else { None }).unwrap();
    assert_eq!((label.node.as_str(), label.key.as_str(), label.value.as_str()), ("node1", "kube-ovn/role", "master"));
    snapshot("kube-ovn", &of_network(&plan));
    snapshot("kube-ovn-values", &plan.texts[&release.input]);
    for host in ["node1", "node2"] {
        let step = plan.steps.iter().find(|step| step.id.0 == format!("{host}/runtime.programs")).unwrap();
        let place = |is: &dyn Fn(&Op) -> bool| step.ops.iter().position(is);
        let folder = place(&|op| matches!(op, Op::StateDir(dir) if dir.path == "/opt/cni"));
        let link = place(
            &|op| matches!(op, Op::Link(link) if (&*link.path, &*link.target) == ("/opt/cni/bin/kube-ovn", "/opt/cni/kube-ovn/kube-ovn")),
        );
        assert!(folder.is_some() && folder < link, "what was there is looked at first: {host}");
    }
}

#[test]
fn hybridnets_network_of_pods_is_made_after_its_chart_and_not_by_it() {
    let (_, plan) = created(NetworkPlugin::Hybridnet, json!({"typha": {"replicas": 2}}));
    let (_, release) = releases(&plan)[0];
    let all = Value::Object(values(&plan, release));
    assert_eq!((&all["init"], &all["typha"]["replicas"]), (&Value::Null, &json!(2)));
    assert_eq!(all["daemon"], json!({"neededCommunityCNIPlugins": "", "preferVxlanInterfaces": ""}));
    snapshot("hybridnet", &of_network(&plan));
    snapshot("hybridnet-values", &plan.texts[&release.input]);
    let objects = plan.steps.iter().find(|step| step.id.0 == "node1/network.pods").unwrap();
    assert!(objects.after.iter().any(|id| id.0 == "node1/network.hybridnet"), "{:?}", objects.after);
    assert!(objects.retries > 0, "its webhook may not run yet");
    let ready = plan.steps.iter().find(|step| step.id.0 == "node1/check.ready-node2").unwrap();
    assert!(ready.after.contains(&objects.id), "{ready:?}");
}

#[test]
fn a_link_or_a_network_of_the_host_in_the_way_is_refused_before_anything_is_changed() {
    let of = |plugin, options| Site::of(cluster(plugin, options));
    let link = |name: &str, addresses: &[&str]| Interface {
        name: name.to_owned(),
        addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
        mac: String::new(),
        mtu: 1500,
    };
    let mut ovn = of(NetworkPlugin::KubeOvn, json!({}));
    assert_eq!(findings(&ovn, "links"), []);
    ovn.facts().own_switch.processes = vec!["ovsdb-server".to_owned()];
    ovn.facts().interfaces.push(link("ovs-netdev", &[]));
    assert!(findings(&ovn, "links")[0].found.contains("(ovs-netdev, ovsdb-server)"));
    ovn.facts().interfaces.push(link("eth1", &["100.64.3.9/24"]));
    let found = findings(&ovn, "networks");
    assert!(found[0].needed.contains("spec.network.options.ipv4.JOIN_CIDR"), "{found:?}");
    let same = of(NetworkPlugin::KubeOvn, json!({"ipv4": {"JOIN_CIDR": "10.233.0.0/16"}}));
    assert!(findings(&same, "networks")[0].found.contains("podCidr 10.233.64.0/18"));

    let mut hybridnet = of(NetworkPlugin::Hybridnet, json!({}));
    assert_eq!(findings(&hybridnet, "links"), []);
    hybridnet.facts().default_link = Some("enp129s0f0np0".to_owned());
    let found = |site: &Site| findings(site, "links").into_iter().map(|finding| finding.found).collect::<Vec<_>>();
    let route = "the default route by enp129s0f0np0, and the node's address on eth0";
    assert_eq!(found(&hybridnet), ["the link enp129s0f0np0", route]);
    hybridnet.facts().default_link = None;
    assert_eq!(found(&hybridnet), ["no default route of IPv4"]);
    hybridnet.cluster.network.interface = Some("eth0".to_owned());
    assert_eq!(found(&hybridnet), [""; 0]);
}

#[test]
fn tunnels_and_the_network_of_nodes_are_kept() {
    let (mut site, plan) = created(NetworkPlugin::KubeOvn, json!({}));
    let map: Value = serde_json::from_str(crate::common::text(&plan, "kubexm-cluster")).unwrap();
    site.join_all_but("node2");
    let applied = Some(AppliedCluster::of_config_map(&map).unwrap());
    let running = ClusterFacts { applied, ..ClusterFacts::default() };
    let joined = |site: &Site| add_node(&site.cx(), &running, &["node2".to_owned()]);
    assert!(joined(&site).is_ok());
    let other = json!({"networking": {"TUNNEL_TYPE": "vxlan"}, "ipv4": {"JOIN_CIDR": "100.80.0.0/16"}, "func": {"ENABLE_LB": false}});
    site.cluster.network.options = other.as_object().unwrap().clone();
    let error = joined(&site).unwrap_err().to_string();
    for wanted in [
        "networking.TUNNEL_TYPE is vxlan, and the cluster has geneve",
        "ipv4.JOIN_CIDR is 100.80.0.0/16",
        "func.ENABLE_LB is false, and the cluster has true",
    ] {
        assert!(error.contains(wanted), "{error}");
    }
}

/// Preflight refuses a module that a host does not name, so each that a plan loads must be one that hosts are asked about.
#[test]
fn hosts_are_asked_about_every_module_that_a_network_needs() {
    for (plugin, options) in [
        (NetworkPlugin::Flannel, json!({"backend": "wireguard"})),
        (NetworkPlugin::Calico, json!({"encapsulation": "IPIP"})),
        (NetworkPlugin::KubeOvn, json!({"networking": {"TUNNEL_TYPE": "vxlan"}})),
        (NetworkPlugin::Hybridnet, json!({})),
    ] {
        let (_, plan) = created(plugin, options);
        let modules = plan.steps.iter().flat_map(|step| &step.ops).filter_map(|op| match op {
            Op::KernelModule(op) => Some(&op.modules),
            _ => None,
        });
        let usual = ["overlay", "br_netfilter"];
        let others: Vec<&String> = modules.flatten().filter(|name| !usual.contains(&name.as_str())).collect();
        assert!(!others.is_empty(), "{plugin}");
        assert!(others.iter().all(|name| network::MODULES.contains(&name.as_str())), "{plugin}: {others:?}");
    }
}

#[test]
fn a_second_pod_network_as_an_add_on_is_refused_unless_the_first_is_left_to_the_operator() {
    let sources = [
        AddonSource::Catalogue { name: "cilium".to_owned(), version: None },
        AddonSource::Repository {
            url: "https://charts.example.com".to_owned(),
            chart: "tigera-operator".to_owned(),
            version: "1.0.0".to_owned(),
        },
        AddonSource::Oci {
            reference: "oci://registry.example.com/charts/kube-ovn".to_owned(),
            version: "1.0.0".to_owned(),
        },
    ];
    for source in sources {
        let problems = |plugin: NetworkPlugin| {
            let mut site = Site::of(cluster(plugin, json!({})));
            site.cluster.addons = vec![Addon { source: source.clone(), ..addon("other", AddonKind::Helm) }];
            let all = kubexm_recipes::config::check(&site.cx());
            all.iter().map(ToString::to_string).filter(|text| text.contains("as add-on other")).count()
        };
        assert_eq!([NetworkPlugin::Hybridnet, NetworkPlugin::Flannel].map(problems), [1, 1], "{source:?}");
        assert_eq!(problems(NetworkPlugin::None), 0, "{source:?}");
    }
}
