//! Cilium as the pod network: beside kube-proxy, and in its place.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::net::IpAddr;

use insta::{Settings, assert_snapshot};
use kubexm_plan::cluster_facts::AppliedCluster;
use kubexm_plan::op::Op;
use kubexm_plan::{ClusterFacts, Plan, lint};
use kubexm_recipes::preflight::{Finding, Severity};
use kubexm_recipes::{add_node, network, preflight, preflight_before_upgrade, sample};
use kubexm_spec::cluster::{Cluster, InternalKind, LoadBalancerMode, NetworkPlugin};
use kubexm_spec::{ArtifactKey, Digest};
use serde_json::{Value, json};

use crate::addons::{releases, values};
use crate::common::Site;

/// A cluster with Cilium, and its plan.
fn cilium(options: Value, change: impl Fn(&mut Cluster)) -> (Site, Plan) {
    let mut cluster = sample::fleet(1, 1);
    cluster.network.plugin = NetworkPlugin::Cilium;
    cluster.network.options = options.as_object().unwrap().clone();
    change(&mut cluster);
    let mut site = Site::of(cluster);
    let platform = site.cluster.bundle.platforms[0];
    for rendering in &mut site.charts.renderings {
        rendering.images = vec!["quay.io/cilium/cilium:v1".to_owned()];
    }
    let mut image = site.manifest.artifacts.iter().find(|a| a.key.to_string() == "image/pause").unwrap().clone();
    (image.key, image.name) =
        (ArtifactKey::ChartImage("quay.io/cilium/cilium:v1".to_owned()), "quay.io/cilium/cilium:v1".to_owned());
    image.platform = Some(platform);
    site.manifest.artifacts.push(image);
    let plan = site.create().unwrap();
    let (_, warnings) = lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, Vec::new());
    (site, plan)
}

#[test]
fn with_two_stacks_its_agents_give_pods_addresses_of_both_families() {
    let (_, plan) = cilium(json!({}), |cluster| {
        cluster.network.more_pod_cidrs = vec!["fd85:1::/56".parse().unwrap()];
        cluster.network.more_service_cidrs = vec!["fd85:2::/112".parse().unwrap()];
        for (number, host) in cluster.hosts.iter_mut().enumerate() {
            host.more_internal_addresses = vec![format!("fd00::{}", 11 + number).parse().unwrap()];
        }
    });
    let values = Value::Object(values(&plan, releases(&plan)[0].1));
    assert_eq!((&values["ipv4"], &values["ipv6"]), (&json!({"enabled": true}), &json!({"enabled": true})));
    let ipam = &values["ipam"];
    assert_eq!(ipam["mode"], "kubernetes", "each node's ranges are those that it has in the API");
    assert_eq!(ipam["operator"]["clusterPoolIPv6PodCIDRList"], json!(["fd85:1::/56"]));
}

#[test]
fn cilium_is_the_pod_network_by_its_chart_with_the_values_of_the_site() {
    let (_, plan) =
        cilium(json!({"debug": {"enabled": true}}), |cluster| cluster.network.interface = Some("eth1".to_owned()));
    let (step, release) = releases(&plan)[0];
    assert_eq!((step.id.0.as_str(), release.namespace.as_str()), ("node1/network.cilium", "kube-system"));
    let values = Value::Object(values(&plan, release));
    assert_eq!(values["k8sServiceHost"], json!("lb.demo.kubexm.internal"));
    assert_eq!(values["operator"], json!({"replicas": 2, "rollOutPods": true}));
    assert_eq!(values["rollOutCiliumPods"], true, "agents read options when they start");
    assert_eq!((&values["devices"], &values["debug"]), (&json!(["eth1"]), &json!({"enabled": true})));
    assert_eq!(values["ipam"]["operator"]["clusterPoolIPv4PodCIDRList"], json!(["10.233.64.0/18"]));
    let images = |host: &str| {
        plan.steps.iter().filter(|step| step.host == host && step.title.contains("quay.io/cilium")).count()
    };
    assert_eq!([images("node1"), images("node2")], [1, 1], "they must start while there is no registry");
    let ready = plan.steps.iter().find(|step| step.id.0 == "node1/check.ready-node2").unwrap();
    assert!(ready.after.iter().any(|id| id.0 == "node1/network.cilium"), "{ready:?}");
    assert!(plan.steps.iter().all(|step| !step.id.0.ends_with("addons.cilium")), "it is no add-on");
}

#[test]
fn cilium_in_place_of_kube_proxy() {
    let (_, with) = cilium(json!({}), |_| ());
    let (_, without) = cilium(json!({"kubeProxyReplacement": true}), |_| ());
    let proxies = |plan: &Plan| {
        let images = plan.steps.iter().filter(|step| step.title.contains("kube-proxy:")).count();
        let kubeadm = crate::common::text(plan, "/etc/kubexm/kubeadm.yaml");
        (images > 0, kubeadm.contains("KubeProxyConfiguration"), kubeadm.contains("addon/kube-proxy"))
    };
    assert_eq!(proxies(&with), (true, true, false));
    assert_eq!(proxies(&without), (false, false, true));
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/cilium");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        assert_snapshot!("plan", without.render());
        assert_snapshot!("values", &without.texts[&releases(&without)[0].1.input]);
        assert_snapshot!("kubeadm", crate::common::text(&without, "/etc/kubexm/kubeadm.yaml"));
    });
}

#[test]
fn a_join_does_not_replace_ciliums_pods_by_those_of_another_bundle() {
    let (mut site, plan) = cilium(json!({}), |_| ());
    let map: Value = serde_json::from_str(crate::common::text(&plan, "kubexm-cluster")).unwrap();
    site.join_all_but("node2");
    let applied = Some(AppliedCluster::of_config_map(&map).unwrap());
    let mut running = ClusterFacts { applied, ..ClusterFacts::default() };
    let applies = |running: &ClusterFacts| {
        let plan = add_node(&site.cx(), running, &["node2".to_owned()]).unwrap();
        lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
        plan.steps.iter().any(|step| step.id.0 == "node1/network.cilium")
    };
    assert!(applies(&running), "the number of its operators follows the nodes");
    running.applied.as_mut().unwrap().bundle.manifest = Digest::of("another manifest.json");
    assert!(!applies(&running), "the nodes have not been given the images of this bundle");
}

/// Without kube-proxy no service has an address that works before the agents do: they must ask by one of the hosts' or of a balancer's.
#[test]
fn ciliums_agents_ask_the_api_by_a_name_that_every_host_knows_without_services() {
    let internal = LoadBalancerMode::Internal { kind: InternalKind::Haproxy, vip: None, port: 6443, interface: None };
    let external = LoadBalancerMode::at(IpAddr::from([10, 77, 0, 100]), 8443);
    for (mode, port, of_worker) in [
        (LoadBalancerMode::None, 6443, vec!["10.77.0.11", "10.77.0.12"]),
        (internal, 6443, vec!["127.0.0.1", "10.77.0.11", "10.77.0.12"]),
        (external, 8443, vec!["10.77.0.100"]),
    ] {
        let (site, plan) = cilium(json!({"kubeProxyReplacement": true}), |cluster| {
            let more = sample::fleet(2, 1);
            (cluster.hosts, cluster.role_groups) = (more.hosts, more.role_groups);
            cluster.load_balancer.mode = mode.clone();
        });
        let values = values(&plan, releases(&plan)[0].1);
        let name = site.cluster.control_plane_name();
        assert_eq!((&values["k8sServiceHost"], &values["k8sServicePort"]), (&json!(name), &json!(port)));
        for host in ["node1", "node2", "node3"] {
            let of_host = plan.steps.iter().filter(|step| step.host == host).flat_map(|step| &step.ops);
            let lines = of_host.filter_map(|op| if let Op::HostsBlock(block) = op { Some(&block.lines) } else { None });
            let found: Vec<&str> = lines.flatten().filter_map(|line| line.strip_suffix(&format!(" {name}"))).collect();
            assert!(!found.is_empty(), "{host}");
            if host == "node3" {
                assert_eq!(found, of_worker);
            }
        }
    }
}

/// A cluster that runs, made with these options, under a cluster.yaml with those.
fn running(had: Value, wants: Value) -> Site {
    let (_, plan) = cilium(had, |_| ());
    let text = crate::common::text(&plan, "/etc/kubexm/kubeadm.yaml").to_owned();
    let (mut site, _) = cilium(wants, |_| ());
    site.join_all_but("nobody");
    let facts = site.facts.get_mut("node1").unwrap();
    (facts.kubeadm_config, facts.kubeadm_config_text) = (Some(Digest::of(&text)), Some(text));
    site
}

#[test]
fn kube_proxy_neither_comes_nor_goes_while_a_cluster_runs() {
    let (without, with) = (|| json!({"kubeProxyReplacement": true}), || json!({"kubeProxyReplacement": false}));
    let unchanged = |site: &Site, findings: fn(&kubexm_recipes::PlanContext<'_>) -> Vec<Finding>| {
        let all = findings(&site.cx()).into_iter().filter(|one| one.check == "unchanged");
        all.map(|one| (one.severity, one.found, one.fix)).collect::<Vec<_>>()
    };
    for findings in [preflight as fn(&kubexm_recipes::PlanContext<'_>) -> Vec<Finding>, preflight_before_upgrade] {
        for (had, wants, found, fix) in [
            (without(), with(), "a running cluster without kube-proxy", "kubeProxyReplacement: true"),
            (with(), without(), "a running cluster with kube-proxy", "leave kubeProxyReplacement out"),
        ] {
            let all = unchanged(&running(had, wants), findings);
            let [(Severity::Fail, said, mended)] = all.as_slice() else { panic!("{all:?}") };
            assert!(said.contains(found) && mended.contains(fix), "{said}, {mended}");
        }
        assert_eq!(unchanged(&running(without(), without()), findings), Vec::new());
        assert_eq!(unchanged(&running(with(), json!({})), findings), Vec::new());
    }
}

#[test]
fn the_port_of_kube_proxy_is_free_for_others_where_there_is_none() {
    let taken = |options: Value| {
        let (mut site, _) = cilium(options, |_| ());
        site.facts.get_mut("node2").unwrap().listeners.push(kubexm_plan::facts::Listener {
            protocol: "tcp".to_owned(),
            port: 10256,
            process: Some("exporter".to_owned()),
            pid: Some(512),
            ours: false,
        });
        preflight(&site.cx()).into_iter().filter(|one| one.check == "ports").count()
    };
    assert_eq!((taken(json!({})), taken(json!({"kubeProxyReplacement": true}))), (1, 0));
}

#[test]
fn how_nodes_reach_pods_stays_in_a_running_cluster_and_other_options_change() {
    let cluster = |options: Value| cilium(options, |_| ()).0.cluster;
    let (_, running) = Site::running(&cluster(json!({"routingMode": "native"})));
    let said = |options: Value| network::unchanged(&cluster(options), &running).map_err(|error| error.to_string());
    assert_eq!(
        said(json!({"routingMode": "native", "MTU": 1400, "tunnelProtocol": "vxlan", "tunnelPort": 8472})),
        Ok(())
    );
    for (options, changed) in [
        (json!({}), "routingMode is tunnel, and the cluster has native"),
        (json!({"routingMode": "native", "ipam": {"mode": "cluster-pool"}}), "ipam.mode is cluster-pool"),
        (json!({"routingMode": "native", "tunnelProtocol": "geneve"}), "tunnelProtocol is geneve"),
        (json!({"routingMode": "native", "tunnelPort": 7000}), "tunnelPort is 7000, and the cluster has not given"),
    ] {
        let error = said(options).unwrap_err();
        assert!(error.contains(changed), "{error}");
    }
}

#[test]
fn ports_and_modules_are_those_of_the_options() {
    let of = |options: Value| {
        let (site, _) = cilium(options, |_| ());
        let traits = network::of(&site.cluster);
        (traits.udp_ports.to_vec(), traits.modules.to_vec())
    };
    let wireguard = json!({"enabled": true, "type": "wireguard"});
    assert_eq!(of(json!({})), (vec![8472], vec![]));
    assert_eq!(of(json!({"tunnelProtocol": "geneve"})), (vec![6081], vec![]));
    assert_eq!(of(json!({"routingMode": "native"})), (vec![], vec![]));
    assert_eq!(of(json!({"tunnelPort": 7000})), (vec![], vec![]));
    assert_eq!(of(json!({"tunnelPort": 0})), (vec![8472], vec![]));
    assert_eq!(of(json!({"tunnelPort": 6081, "tunnelProtocol": "geneve"})), (vec![6081], vec![]));
    assert_eq!(of(json!({"encryption": wireguard})), (vec![8472, 51871], vec!["wireguard"]));
    assert_eq!(
        of(json!({"encryption": wireguard, "tunnelProtocol": "geneve"})),
        (vec![6081, 51871], vec!["wireguard"])
    );
    assert_eq!(of(json!({"encryption": wireguard, "routingMode": "native"})), (vec![51871], vec!["wireguard"]));
}

#[test]
fn keys_of_ipsec_cannot_be_there_before_the_network() {
    let mut cluster = sample::fleet(1, 1);
    cluster.network.plugin = NetworkPlugin::Cilium;
    cluster.network.options = json!({"encryption": {"enabled": true}}).as_object().unwrap().clone();
    let error = Site::of(cluster).create().unwrap_err().to_string();
    assert!(error.contains("IPsec") && error.contains("type: wireguard"), "{error}");
}

#[test]
fn every_node_needs_room_for_the_networks_images_whatever_registry_there_is() {
    let needed = |size: u64| {
        let (mut site, _) = cilium(json!({}), |_| ());
        for facts in site.facts.values_mut() {
            facts.disks.iter_mut().for_each(|disk| disk.free = 0);
        }
        for artifact in site.manifest.artifacts.iter_mut().filter(|a| a.name.starts_with("quay.io/cilium/")) {
            artifact.blobs.iter_mut().for_each(|blob| blob.size = size);
        }
        let found = preflight(&site.cx()).into_iter();
        found
            .filter(|one| one.check == "space" && one.host.as_deref() == Some("node2"))
            .map(|one| one.needed)
            .collect::<Vec<_>>()
    };
    assert_ne!(needed(1 << 20), needed(4 << 30));
}
