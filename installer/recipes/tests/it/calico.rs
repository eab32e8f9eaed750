//! Calico: upstream's manifest with what cluster.yaml, the hosts and the bundle say.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use crate::common::Site;
use insta::{Settings, assert_snapshot};
use kubexm_plan::op::{Manifests, Op};
use kubexm_plan::{Plan, Step, Undo, lint};
use kubexm_recipes::{RecipeError, network, sample};
use kubexm_spec::ExitCode;
use kubexm_spec::cluster::{Cluster, NetworkPlugin, ProxyMode, RegistryKind};
use serde_json::{Value, json};

fn cluster(hosts: u8, options: Value) -> Cluster {
    let mut cluster = sample::fleet(1, hosts - 1);
    cluster.network.plugin = NetworkPlugin::Calico;
    cluster.network.options = options.as_object().unwrap().clone();
    cluster
}

fn checked(cluster: Cluster) -> Plan {
    let plan = Site::of(cluster).create().unwrap_or_else(|error| panic!("{error}"));
    let (_, warnings) = lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, Vec::new());
    plan
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
    assert_eq!([images("node1"), images("node2")], [4, 4], "they must start while there is no registry");
    let ready = plan.steps.iter().find(|step| step.id.0 == "node1/check.ready-node2").unwrap();
    assert!(ready.after.contains(&step.id), "{ready:?}");
    assert!(plan.steps.iter().any(|step| step.id.0 == "node1/kubernetes.calicoctl"));
    let mut without = cluster(1, json!({}));
    without.registry.kind = RegistryKind::None;
    let plan = checked(without);
    assert_eq!(plan.steps.iter().filter(|step| step.title.contains("quay.io/calico/")).count(), 4);
}

#[test]
fn each_encapsulation_is_a_mode_of_the_pool_with_the_daemon_that_it_needs() {
    for (word, ipip, vxlan, backend, bird, ports) in [
        ("VXLAN", "Never", "Always", "vxlan", false, (vec![4789], vec![])),
        ("VXLANCrossSubnet", "Never", "CrossSubnet", "vxlan", false, (vec![4789], vec![])),
        ("IPIP", "Always", "Never", "bird", true, (vec![], vec![179])),
        ("IPIPCrossSubnet", "CrossSubnet", "Never", "bird", true, (vec![], vec![179])),
        ("None", "Never", "Never", "bird", true, (vec![], vec![179])),
    ] {
        let cluster = cluster(1, json!({"encapsulation": word}));
        let all = objects(&checked(cluster.clone()));
        let env = env(&all, "calico-node");
        assert_eq!(
            (&env["CALICO_IPV4POOL_IPIP"], &env["CALICO_IPV4POOL_VXLAN"]),
            (&json!(ipip), &json!(vxlan)),
            "{word}"
        );
        let config = object(&all, "ConfigMap", "calico-config").unwrap();
        assert_eq!(config["data"]["calico_backend"], backend, "{word}");
        let pod = &object(&all, "DaemonSet", "calico-node").unwrap()["spec"]["template"]["spec"]["containers"][0];
        for (probe, word) in [("livenessProbe", "-bird-live"), ("readinessProbe", "-bird-ready")] {
            let command = pod[probe]["exec"]["command"].as_array().unwrap();
            assert_eq!(command.contains(&json!(word)), bird, "{word}");
        }
        let of_network = network::ports(&cluster);
        assert_eq!((of_network.udp, of_network.tcp), ports, "{word}");
    }
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
fn typha_is_there_from_fifty_nodes_on_or_when_asked_for() {
    let typhas = |hosts: u8, options: Value| {
        let cluster = cluster(hosts, options);
        let plan = checked(cluster.clone());
        let all = objects(&plan);
        let deployment =
            object(&all, "Deployment", "calico-typha").map(|found| found["spec"]["replicas"].as_u64().unwrap());
        let service = &object(&all, "ConfigMap", "calico-config").unwrap()["data"]["typha_service_name"];
        assert_eq!(service, if deployment.is_some() { "calico-typha" } else { "none" });
        for kind in ["Service", "PodDisruptionBudget"] {
            assert_eq!(object(&all, kind, "calico-typha").is_some(), deployment.is_some(), "{kind}");
        }
        assert_eq!(network::ports(&cluster).tcp.contains(&5473), deployment.is_some());
        deployment
    };
    assert_eq!(typhas(49, json!({})), None);
    assert_eq!(typhas(50, json!({})), Some(3));
    assert_eq!(typhas(50, json!({"typha": {"enabled": false}})), None);
    assert_eq!(typhas(2, json!({"typha": {"enabled": true}})), Some(2), "one on each node, for its port");
    assert_eq!(typhas(4, json!({"typha": {"replicas": 1}})), Some(1));
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
