//! Calico: upstream's manifest with what cluster.yaml, the hosts and the bundle say.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use crate::common::Site;
use insta::{Settings, assert_snapshot};
use kubexm_plan::op::{Manifests, Op};
use kubexm_plan::{ClusterFacts, Plan, Step, Undo, lint};
use kubexm_recipes::preflight::Severity;
use kubexm_recipes::{RecipeError, add_node, network, preflight, sample};
use kubexm_spec::cluster::{Cluster, NetworkPlugin, ProxyMode, RegistryKind, Taint, TaintEffect};
use kubexm_spec::{Digest, ExitCode};
use serde_json::{Map, Value, json};

fn cluster(hosts: u8, options: Value) -> Cluster {
    let mut cluster = sample::fleet(1, hosts - 1);
    cluster.network.plugin = NetworkPlugin::Calico;
    cluster.network.options = options.as_object().unwrap().clone();
    cluster
}

fn checked(cluster: Cluster) -> Plan {
    Site::of(cluster).checked()
}

fn step(plan: &Plan) -> (&Step, &Manifests) {
    let found = plan.steps.iter().find_map(|step| match step.ops.as_slice() {
        [Op::Manifests(op)] if step.id.0.ends_with("/network.calico") => Some((step, op)),
        _ => None,
    });
    found.unwrap()
}

fn objects(plan: &Plan) -> Vec<Value> {
    let text = &plan.texts[&step(plan).1.blob];
    serde_saphyr::from_multiple(text).unwrap()
}

fn object<'o>(all: &'o [Value], kind: &str, name: &str) -> Option<&'o Value> {
    all.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
}

/// The variables of a container of the DaemonSet; null for one whose value is not written there.
fn env(all: &[Value], container: &str) -> Value {
    let pod = &object(all, "DaemonSet", "calico-node").unwrap()["spec"]["template"]["spec"];
    let mut containers = ["initContainers", "containers"].into_iter().flat_map(|list| pod[list].as_array().unwrap());
    let found = containers.find(|one| one["name"] == container).unwrap();
    let pairs = found["env"].as_array().unwrap().iter();
    pairs.map(|one| (one["name"].as_str().unwrap().to_owned(), one["value"].clone())).collect()
}

#[test]
fn the_plan_and_the_manifest_of_the_default() {
    let plan = checked(cluster(2, json!({})));
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/calico");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("manifest", &plan.texts[&step(&plan).1.blob]);
    });
}

#[test]
fn it_is_applied_from_the_plan_and_its_images_are_on_every_node() {
    let plan = checked(cluster(2, json!({})));
    let (step, op) = step(&plan);
    assert_eq!((op.name.as_str(), op.namespace.as_str(), op.in_plan), ("network.calico", "kube-system", true));
    assert!(matches!(step.undo, Undo::WithParent { .. }), "{:?}", step.undo);
    let images = |host: &str| {
        let loads = |step: &&Step| step.host == host && step.title.contains("quay.io/calico/");
        plan.steps.iter().filter(loads).count()
    };
    assert_eq!([images("node1"), images("node2")], [3, 3], "they must start while there is no registry");
    let ready = plan.steps.iter().find(|step| step.id.0 == "node1/check.ready-node2").unwrap();
    assert!(ready.after.contains(&step.id), "{ready:?}");
    assert!(plan.steps.iter().any(|step| step.id.0 == "node1/kubernetes.calicoctl"));
    let mut without = cluster(1, json!({}));
    without.registry.kind = RegistryKind::None;
    let plan = checked(without);
    assert_eq!(plan.steps.iter().filter(|step| step.title.contains("quay.io/calico/")).count(), 4, "all of the bundle");
}

#[test]
fn each_encapsulation_is_a_mode_of_the_pool_and_probes_ask_bird_where_it_runs() {
    for (options, vxlan, ipip) in [
        (json!({}), "Always", "Never"),
        (json!({"encapsulation": "VXLAN"}), "Always", "Never"),
        (json!({"encapsulation": "VXLANCrossSubnet"}), "CrossSubnet", "Never"),
        (json!({"encapsulation": "IPIP"}), "Never", "Always"),
        (json!({"encapsulation": "IPIPCrossSubnet"}), "Never", "CrossSubnet"),
        (json!({"encapsulation": "None"}), "Never", "Never"),
    ] {
        let all = objects(&checked(cluster(1, options.clone())));
        let env = env(&all, "calico-node");
        let modes = (&env["CALICO_IPV4POOL_IPIP"], &env["CALICO_IPV4POOL_VXLAN"]);
        assert_eq!(modes, (&json!(ipip), &json!(vxlan)), "{options}");
        let bird = vxlan == "Never";
        let backend = if bird { "bird" } else { "vxlan" };
        assert_eq!(object(&all, "ConfigMap", "calico-config").unwrap()["data"]["calico_backend"], backend, "{options}");
        let pod = &object(&all, "DaemonSet", "calico-node").unwrap()["spec"]["template"]["spec"]["containers"][0];
        for (probe, word) in [("livenessProbe", "-bird-live"), ("readinessProbe", "-bird-ready")] {
            assert_eq!(pod[probe].to_string().contains(word), bird, "{options}: {probe}");
        }
    }
}

/// Where BIRD runs, a removal finds its routes by the network of pods, which every node has before its kubelet starts, and nodes reach each
/// other's port of BGP.
#[test]
fn nodes_with_bird_have_the_network_of_pods_the_module_and_the_port() {
    let modules = |plan: &Plan| {
        let mut ops = plan.steps.iter().filter(|step| step.id.0 == "node2/os.modules").flat_map(|step| &step.ops);
        let found = ops.find_map(|op| if let Op::KernelModule(op) = op { Some(op.modules.clone()) } else { None });
        found.unwrap()
    };
    for (encapsulation, bird, ipip) in
        [("VXLAN", false, false), ("None", true, false), ("IPIP", true, true), ("IPIPCrossSubnet", true, true)]
    {
        for typha in [false, true] {
            let options = json!({"encapsulation": encapsulation, "typha": {"enabled": typha}});
            let cluster = cluster(3, options);
            let traits = network::of(&cluster);
            let ports: Vec<u16> =
                [(bird, 179), (typha, 5473)].iter().filter(|(has, _)| *has).map(|(_, p)| *p).collect();
            assert_eq!(traits.tcp_ports, ports, "{encapsulation}, {typha}");
            assert_eq!(traits.udp_ports, if bird { &[][..] } else { &[4789] }, "{encapsulation}");
            assert_eq!(traits.feature_images.contains(&"calico-typha"), typha);
            let plan = checked(cluster);
            assert_eq!(modules(&plan).contains(&"ipip".to_owned()), ipip, "{encapsulation}");
            for node in ["node1", "node2", "node3"] {
                let step = plan.steps.iter().find(|step| step.id.0 == format!("{node}/network.pods"));
                assert_eq!(step.is_some(), bird, "{node} with {encapsulation}");
            }
        }
    }
    let plan = checked(cluster(2, json!({"encapsulation": "None"})));
    assert!(plan.texts.values().any(|text| text == "POD_NETWORK=10.233.64.0/18\n"));
    let before = |later: &str, step: &str| {
        let order = lint::Order::of(&plan);
        let at = |id: &str| plan.steps.iter().position(|step| step.id.0 == id).unwrap();
        order.is_earlier(at(step), at(later))
    };
    assert!(before("node1/control-plane.init", "node1/network.pods"));
    assert!(before("node2/join.node", "node2/network.pods"));
}

/// Both hosts and both networks have a family each.
fn with_two_stacks(mut cluster: Cluster) -> Cluster {
    cluster.network.more_pod_cidrs = vec!["fd85:1::/56".parse().unwrap()];
    cluster.network.more_service_cidrs = vec!["fd85:2::/112".parse().unwrap()];
    for (number, host) in cluster.hosts.iter_mut().enumerate() {
        host.more_internal_addresses = vec![format!("fd00::{}", 11 + number).parse().unwrap()];
    }
    cluster
}

#[test]
fn with_two_stacks_there_is_a_pool_of_each_family_and_the_plugin_gives_addresses_of_both() {
    for (options, vxlan) in
        [(json!({}), "Always"), (json!({"encapsulation": "VXLANCrossSubnet", "natOutgoing": false}), "CrossSubnet")]
    {
        let nat = options["natOutgoing"].as_bool().unwrap_or(true).to_string();
        let mut site = Site::of(with_two_stacks(cluster(2, options)));
        site.cluster.network.interface = Some(site.facts().interfaces[0].name.clone());
        let all = objects(&site.checked());
        let env = env(&all, "calico-node");
        assert_eq!(env["IP_AUTODETECTION_METHOD"], format!("interface=^{}$", site.facts().interfaces[0].name));
        for (name, value) in [
            ("FELIX_IPV6SUPPORT", "true"),
            ("IP6", "autodetect"),
            ("IP6_AUTODETECTION_METHOD", "kubernetes-internal-ip"),
            ("CALICO_IPV4POOL_CIDR", "10.233.64.0/18"),
            ("CALICO_IPV6POOL_CIDR", "fd85:1::/56"),
            ("CALICO_IPV6POOL_VXLAN", vxlan),
            ("CALICO_IPV6POOL_NAT_OUTGOING", nat.as_str()),
        ] {
            assert_eq!(env[name], value, "{name} with {vxlan}");
        }
        let config = &object(&all, "ConfigMap", "calico-config").unwrap()["data"]["cni_network_config"];
        let text = config.as_str().unwrap().replace("__CNI_MTU__", "0");
        let config: Value = serde_json::from_str(&text).unwrap();
        let ipam = json!({"type": "calico-ipam", "assign_ipv4": "true", "assign_ipv6": "true"});
        assert_eq!(config["plugins"][0]["ipam"], ipam);
    }
    let all = objects(&checked(cluster(2, json!({}))));
    let of_one = env(&all, "calico-node");
    assert_eq!((&of_one["FELIX_IPV6SUPPORT"], &of_one["IP6"]), (&json!("false"), &Value::Null));
    for encapsulation in ["IPIP", "IPIPCrossSubnet", "None"] {
        let error =
            Site::of(with_two_stacks(cluster(2, json!({"encapsulation": encapsulation})))).create().unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Unsupported);
        assert!(error.to_string().contains("pods have both families with VXLAN"), "{error}");
    }
}

/// Felix removes every other address from that link when it starts, with VXLAN as well.
#[test]
fn addresses_of_others_on_the_kernels_tunnel_are_not_lost() {
    for (plugin, ours, refused) in [
        (NetworkPlugin::Calico, false, true),
        (NetworkPlugin::Calico, true, false),
        (NetworkPlugin::Flannel, false, false),
    ] {
        let mut wanted = cluster(1, json!({}));
        wanted.network.plugin = plugin;
        let mut site = Site::of(wanted);
        let facts = site.facts();
        let mut tunnel = facts.interfaces[0].clone();
        (tunnel.name, tunnel.addresses) = ("tunl0".to_owned(), vec!["198.51.100.9/32".to_owned()]);
        facts.interfaces.push(tunnel);
        if ours {
            site.join_all_but("nobody");
        }
        let found = preflight(&site.cx()).into_iter().find(|finding| finding.found == "198.51.100.9/32 on tunl0");
        assert_eq!(found.map(|finding| finding.severity), refused.then_some(Severity::Fail), "{plugin}, ours: {ours}");
    }
}

/// Nodes and API server were made with them.
#[test]
fn a_running_cluster_keeps_its_networks() {
    let (_, running) = Site::running(&cluster(2, json!({})));
    let said = |change: &dyn Fn(&mut Cluster)| {
        let mut wanted = cluster(2, json!({}));
        change(&mut wanted);
        network::unchanged(&wanted, &running).map_err(|error| error.to_string()).err().unwrap_or_default()
    };
    assert_eq!(said(&|_| ()), "");
    let other = said(&|cluster| cluster.network.pod_cidr = "10.9.0.0/16".parse().unwrap());
    assert!(other.contains("spec.network.podCidr is 10.9.0.0/16, and the cluster has 10.233.64.0/18"), "{other}");
    let both = said(&|cluster| *cluster = with_two_stacks(cluster.clone()));
    for text in ["podCidr is 10.233.64.0/18, fd85:1::/56, and the cluster has 10.233.64.0/18", "serviceCidr is "] {
        assert!(both.contains(text), "{both}");
    }
    let left = said(&|cluster| (cluster.network.plugin, cluster.network.options) = (NetworkPlugin::None, Map::new()));
    assert_eq!(left, "", "seen on nodes");
    let other =
        said(&|cluster| (cluster.network.plugin, cluster.network.options) = (NetworkPlugin::Cilium, Map::new()));
    assert!(other.contains("plugin is cilium, and the cluster has calico"), "{other}");
    assert!(
        said(&|cluster| cluster.network.plugin = NetworkPlugin::Flannel)
            .contains("plugin is flannel, and the cluster has calico")
    );
    let (_, running) = Site::running(&with_two_stacks(cluster(2, json!({}))));
    assert!(network::unchanged(&with_two_stacks(cluster(2, json!({}))), &running).is_ok());
    assert!(network::unchanged(&cluster(2, json!({})), &running).is_err(), "nor does it lose one");
}

#[test]
fn without_encapsulation_a_router_between_nodes_is_refused() {
    for (encapsulation, refused) in [("None", true), ("IPIPCrossSubnet", false), ("VXLAN", false)] {
        let mut site = Site::of(cluster(2, json!({"encapsulation": encapsulation})));
        site.facts.get_mut("node2").unwrap().interfaces[0].addresses = vec!["10.99.0.12/24".to_owned()];
        let host = site.cluster.hosts.iter_mut().find(|host| host.name == "node2").unwrap();
        host.internal_address = Some("10.99.0.12".parse().unwrap());
        let all = preflight(&site.cx()).into_iter().filter(|finding| finding.check == "one-link");
        let fixes: Vec<String> = all.map(|finding| finding.fix).collect();
        assert_eq!(fixes.iter().any(|fix| fix.contains("IPIPCrossSubnet")), refused, "{encapsulation}: {fixes:?}");
    }
}

#[test]
fn another_setting_that_pods_read_when_they_start_replaces_them() {
    let noted = |cluster: Cluster| {
        let all = objects(&checked(cluster));
        let template = &object(&all, "DaemonSet", "calico-node").unwrap()["spec"]["template"];
        template["metadata"]["annotations"]["kubexm.io/config"].as_str().unwrap().to_owned()
    };
    let before = noted(cluster(2, json!({})));
    assert_eq!(before, noted(cluster(2, json!({"natOutgoing": true}))), "nothing that they read");
    assert_ne!(before, noted(cluster(2, json!({"mtu": 1400}))), "the DaemonSet itself is the same");
    let mut elsewhere = cluster(2, json!({}));
    elsewhere.load_balancer.domain = Some("api.example.com".to_owned());
    assert_ne!(before, noted(elsewhere), "they ask another address");
}

#[test]
fn pods_of_many_nodes_are_replaced_ten_at_a_hundred_and_waited_for_as_long_as_that_takes() {
    let of = |hosts: u8| {
        let plan = checked(cluster(hosts, json!({})));
        let (step, op) = step(&plan);
        assert!(step.timeout_s > 2 * op.wait_s, "{step:?}");
        let all = objects(&plan);
        let strategy = &object(&all, "DaemonSet", "calico-node").unwrap()["spec"]["updateStrategy"];
        assert_eq!(strategy["rollingUpdate"]["maxUnavailable"], "10%");
        op.wait_s
    };
    // A minute for each round.
    assert_eq!([of(1), of(2), of(11), of(90)], [360, 420, 660, 900]);
}

#[test]
fn links_that_felix_does_not_know_are_named_to_it() {
    let pattern = |change: &dyn Fn(&mut Site)| {
        let mut site = Site::of(cluster(2, json!({})));
        change(&mut site);
        env(&objects(&site.create().unwrap()), "calico-node")["FELIX_MTUIFACEPATTERN"].clone()
    };
    let link = |site: &mut Site, host: &str, name: &str| {
        site.facts.get_mut(host).unwrap().interfaces[0].name = name.to_owned();
    };
    assert_eq!(pattern(&|_| ()), Value::Null, "eth0 is known");
    assert_eq!(pattern(&|site| link(site, "node2", "enp1s0")), Value::Null);
    assert_eq!(pattern(&|site| link(site, "node2", "bond0.7")), "^(bond0\\.7|eth0)$");
    let named = |site: &mut Site| {
        for host in ["node1", "node2"] {
            link(site, host, "br0");
        }
        site.cluster.network.interface = Some("br0".to_owned());
    };
    assert_eq!(pattern(&named), "^(br0)$");
    let given = |site: &mut Site| {
        link(site, "node2", "bond0");
        site.cluster.network.options.insert("mtu".to_owned(), json!(1400));
    };
    assert_eq!(pattern(&given), Value::Null);
}

#[test]
fn a_pool_that_is_made_once_is_not_changed_by_anything_and_named() {
    let (_, made) = Site::running(&cluster(2, json!({"blockSize": 27})));
    let said = |options: Value| match network::unchanged(&cluster(2, options), &made) {
        Ok(()) => String::new(),
        Err(error) => {
            assert_eq!(error.exit_code(), ExitCode::Preflight);
            error.to_string()
        }
    };
    let same = json!({"blockSize": 27, "encapsulation": "VXLAN", "natOutgoing": true, "mtu": 1400});
    assert_eq!(said(same), "", "defaults that are written out, and what can be changed");
    for (options, named) in [
        (json!({}), "spec.network.options.blockSize is 26, and the cluster has 27"),
        (
            json!({"blockSize": 27, "encapsulation": "VXLANCrossSubnet"}),
            "spec.network.options.encapsulation is VXLANCrossSubnet, and the cluster has VXLAN",
        ),
        (
            json!({"blockSize": 27, "natOutgoing": false}),
            "spec.network.options.natOutgoing is false, and the cluster has true",
        ),
    ] {
        let said = said(options);
        assert!(said.contains(named) && said.contains("nothing was changed"), "{said}");
    }
    let (_, flannel) = Site::running(&sample::fleet(1, 1));
    let error = network::unchanged(&cluster(2, json!({})), &flannel).unwrap_err().to_string();
    assert!(error.contains("spec.network.plugin is calico, and the cluster has flannel"), "{error}");
    network::unchanged(&cluster(2, json!({})), &ClusterFacts::default()).unwrap();
}

#[test]
fn a_join_neither_changes_the_pool_nor_replaces_pods_by_another_bundles() {
    let (mut site, mut running) = Site::running(&cluster(3, json!({})));
    let add = |site: &Site, running: &ClusterFacts| add_node(&site.cx(), running, &["node3".to_owned()]);
    let applies = |plan: Plan| plan.steps.iter().any(|step| step.id.0.ends_with("/network.calico"));
    assert!(applies(add(&site, &running).unwrap()), "with the same bundle it may follow the new host's link");
    running.applied.as_mut().unwrap().bundle.manifest = Digest::of("another manifest.json");
    let plan = add(&site, &running).unwrap();
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert!(!applies(plan), "nodes have not been given the images of this bundle");
    site.cluster.network.options = json!({"blockSize": 28}).as_object().unwrap().clone();
    let refused = add(&site, &running).unwrap_err();
    assert!(matches!(refused, RecipeError::NetworkChanged { .. }), "{refused}");
}

#[test]
fn a_pool_with_too_few_blocks_is_named_before_anything() {
    let found = |hosts: u8, change: &dyn Fn(&mut Cluster)| {
        let mut cluster = cluster(hosts, json!({}));
        change(&mut cluster);
        let all = preflight(&Site::of(cluster).cx());
        let of_networks = all.into_iter().filter(|finding| finding.check == "networks");
        of_networks.map(|finding| (finding.severity, finding.found)).collect::<Vec<_>>()
    };
    assert_eq!(found(4, &|cluster| cluster.network.pod_cidr = "10.1.2.0/24".parse().unwrap()), []);
    let few = found(5, &|cluster| cluster.network.pod_cidr = "10.1.2.0/24".parse().unwrap());
    assert_eq!(few, [(Severity::Fail, "podCidr 10.1.2.0/24 with 4 blocks of addresses, for 5 nodes".to_owned())]);
    let smaller = |cluster: &mut Cluster| {
        cluster.network.pod_cidr = "10.1.2.0/24".parse().unwrap();
        cluster.network.options.insert("blockSize".to_owned(), json!(28));
    };
    assert_eq!(found(5, &smaller), []);
}

#[test]
fn the_pool_the_address_and_the_rules_are_the_clusters() {
    let mut cluster = cluster(1, json!({"blockSize": 24, "natOutgoing": false, "mtu": 1400}));
    let all = objects(&checked(cluster.clone()));
    let plain = env(&all, "calico-node");
    assert_eq!(plain["CALICO_IPV4POOL_CIDR"], "10.233.64.0/18");
    assert_eq!(
        (&plain["CALICO_IPV4POOL_BLOCK_SIZE"], &plain["CALICO_IPV4POOL_NAT_OUTGOING"]),
        (&json!("24"), &json!("false"))
    );
    assert_eq!(plain["IP_AUTODETECTION_METHOD"], "kubernetes-internal-ip");
    assert_eq!(plain["FELIX_NFTABLESMODE"], "Disabled");
    assert_eq!(plain["FELIX_USAGEREPORTINGENABLED"], "false", "nothing leaves an air gap");
    assert_eq!(object(&all, "ConfigMap", "calico-config").unwrap()["data"]["veth_mtu"], "1400");
    let api = object(&all, "ConfigMap", "kubernetes-services-endpoint").unwrap();
    assert_eq!(
        api["data"],
        json!({"KUBERNETES_SERVICE_HOST": "lb.demo.kubexm.internal", "KUBERNETES_SERVICE_PORT": "6443"})
    );
    let skipped = env(&all, "install-cni")["SKIP_CNI_BINARIES"].as_str().unwrap().to_owned();
    assert!(["host-local", "portmap", "loopback"].iter().all(|name| skipped.split(',').any(|one| one == *name)));
    cluster.network.interface = Some("bond0.100".to_owned());
    cluster.kubernetes.as_mut().unwrap().proxy_mode = ProxyMode::Nftables;
    let other = env(&objects(&checked(cluster)), "calico-node");
    assert_eq!(other["IP_AUTODETECTION_METHOD"], "interface=^bond0\\.100$");
    assert_eq!(other["FELIX_NFTABLESMODE"], "Enabled");
}

#[test]
fn typha_is_there_from_fifty_nodes_on_or_when_asked_for_and_otherwise_nothing_of_it() {
    let typhas = |hosts: u8, options: Value| {
        let all = objects(&checked(cluster(hosts, options)));
        let deployment =
            object(&all, "Deployment", "calico-typha").map(|found| found["spec"]["replicas"].as_u64().unwrap());
        let service = &object(&all, "ConfigMap", "calico-config").unwrap()["data"]["typha_service_name"];
        assert_eq!(service, if deployment.is_some() { "calico-typha" } else { "none" });
        for kind in ["Service", "PodDisruptionBudget"] {
            assert_eq!(object(&all, kind, "calico-typha").is_some(), deployment.is_some(), "{kind}");
        }
        deployment
    };
    assert_eq!(typhas(2, json!({})), None);
    assert_eq!(typhas(49, json!({})), None);
    assert_eq!(typhas(50, json!({})), Some(3));
    assert_eq!(typhas(50, json!({"typha": {"enabled": false}})), None);
    assert_eq!(typhas(3, json!({"typha": {"enabled": true}})), Some(2), "one on each node but that which is drained");
    assert_eq!(typhas(1, json!({"typha": {"enabled": true}})), Some(1));
    let mut tainted = cluster(4, json!({"typha": {"enabled": true}}));
    for host in tainted.hosts.iter_mut().skip(1) {
        host.taints.push(Taint { key: "site".to_owned(), value: String::new(), effect: TaintEffect::NoSchedule });
    }
    let all = objects(&checked(tainted));
    let replicas = &object(&all, "Deployment", "calico-typha").unwrap()["spec"]["replicas"];
    assert_eq!(replicas, 1, "taints of the site keep it off all but the control plane");
    assert_eq!(typhas(4, json!({"typha": {"replicas": 1}})), Some(1));
}

#[test]
fn a_drained_node_does_not_get_its_typha_back_and_does_not_wait_five_minutes_for_its_end() {
    let plan = checked(cluster(3, json!({"typha": {"enabled": true}})));
    let all = objects(&plan);
    let pod = &object(&all, "Deployment", "calico-typha").unwrap()["spec"]["template"]["spec"];
    let keys: Vec<&str> =
        pod["tolerations"].as_array().unwrap().iter().map(|one| one["key"].as_str().unwrap()).collect();
    assert!(keys.contains(&"node-role.kubernetes.io/control-plane") && keys.contains(&"node.kubernetes.io/not-ready"));
    assert!(!keys.contains(&"node.kubernetes.io/unschedulable"), "{keys:?}");
    assert_eq!(pod["terminationGracePeriodSeconds"], 60);
    let shutdown = &pod["containers"][0]["env"][0];
    assert_eq!(shutdown, &json!({"name": "TYPHA_SHUTDOWNTIMEOUTSECS", "value": "60"}));
    let loads = |step: &&Step| step.host == "node3" && step.title.contains("quay.io/calico/");
    assert_eq!(plan.steps.iter().filter(loads).count(), 4, "it may start on any node, registry or not");
}

#[test]
fn a_manifest_that_is_not_as_the_recipe_knows_it_is_refused_with_everything_that_was_not_found() {
    let mut site = Site::of(cluster(1, json!({})));
    site.charts.manifest = Some(
        sample::MANIFEST
            .replace("CALICO_IPV4POOL_VXLAN", "CALICO_POOL_VXLAN")
            .replace(", -bird-ready", "")
            .replace("quay.io/calico/kube-controllers:", "quay.io/calico/controllers:"),
    );
    let error = kubexm_recipes::bundle::check(&site.cx()).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::BundleIncomplete);
    let RecipeError::Manifest { problems, .. } = &error else { panic!("{error}") };
    assert_eq!(
        problems.as_slice(),
        [
            "container calico-node of DaemonSet calico-node has no variable CALICO_IPV4POOL_VXLAN",
            "the readinessProbe of container calico-node of DaemonSet calico-node has no -bird-ready",
            "Deployment calico-kube-controllers runs quay.io/calico/controllers:v3.31.7, which is no image of the bundle",
        ]
    );
    assert!(error.to_string().contains("calico-manifest 3.31.7"), "{error}");
    assert!(matches!(site.create(), Err(RecipeError::Manifest { .. })));
    site.charts.manifest = None;
    assert!(matches!(site.create(), Err(RecipeError::NotInBundle { .. })));
}
