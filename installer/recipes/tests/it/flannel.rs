//! flannel's backends: what its configuration says, what nodes need for it, and that a running cluster keeps the one that it has.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use crate::common::{Site, text};
use kubexm_plan::Plan;
use kubexm_plan::op::Op;
use kubexm_recipes::preflight::Severity;
use kubexm_recipes::{RecipeError, add_node, mesh, network, preflight, sample};
use kubexm_spec::ExitCode;
use kubexm_spec::cluster::Cluster;
use serde_json::{Value, json};

fn cluster(hosts: u8, options: Value) -> Cluster {
    let mut cluster = sample::fleet(1, hosts - 1);
    cluster.network.options = options.as_object().unwrap().clone();
    cluster
}

fn checked(cluster: Cluster) -> Plan {
    Site::of(cluster).checked()
}

#[test]
fn each_backend_is_what_flannel_calls_it() {
    let backend = |options: Value| {
        let objects: Vec<Value> = serde_saphyr::from_multiple(text(&checked(cluster(2, options)), "flannel")).unwrap();
        let config = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
        let net: Value = serde_json::from_str(config["data"]["net-conf.json"].as_str().unwrap()).unwrap();
        net["Backend"].clone()
    };
    assert_eq!(backend(json!({})), json!({"Type": "vxlan"}));
    assert_eq!(backend(json!({"backend": "host-gw"})), json!({"Type": "host-gw"}));
    assert_eq!(backend(json!({"backend": "wireguard", "mtu": 1380})), json!({"Type": "wireguard", "MTU": 1380}));
    assert_eq!(backend(json!({"directRouting": true})), json!({"Type": "vxlan", "DirectRouting": true}));
}

#[test]
fn ports_and_modules_are_those_of_the_backend() {
    let of = |options: Value| {
        let site = Site::of(cluster(2, options));
        let ports = mesh::mesh(&site.cx());
        let plan = site.create().unwrap();
        let udp = |number: &str| format!("{ports:?}").contains(number);
        let loads = plan.steps.iter().flat_map(|step| &step.ops).any(|op| match op {
            Op::KernelModule(op) => op.modules.iter().any(|module| module == "wireguard"),
            _ => false,
        });
        (udp("8472"), udp("51820"), loads)
    };
    assert_eq!(of(json!({})), (true, false, false));
    assert_eq!(of(json!({"backend": "host-gw"})), (false, false, false));
    assert_eq!(of(json!({"backend": "wireguard"})), (false, true, true));
}

#[test]
fn a_kernel_without_wireguard_is_named_before_anything() {
    let site = Site::of(cluster(1, json!({"backend": "wireguard"})));
    let found = preflight(&site.cx()).into_iter().find(|finding| finding.found.contains("wireguard")).unwrap();
    assert_eq!((found.severity, found.check.as_str()), (Severity::Fail, "kernel"));
    assert!(found.fix.contains("set another `spec.network.options.backend`"), "{}", found.fix);
}

#[test]
fn nodes_that_are_gateways_to_their_pods_have_to_be_on_one_link() {
    let found = |options: Value, address: &str| {
        let mut site = Site::of(cluster(3, options));
        let node = site.facts.get_mut("node3").unwrap();
        node.interfaces[0].addresses = vec![format!("{address}/24")];
        let host = site.cluster.hosts.iter_mut().find(|host| host.name == "node3").unwrap();
        host.internal_address = Some(address.parse().unwrap());
        let all = preflight(&site.cx()).into_iter().filter(|finding| finding.check == "one-link");
        all.map(|finding| finding.found).collect::<Vec<_>>()
    };
    let gateway = || json!({"backend": "host-gw"});
    let beyond = found(gateway(), "10.99.0.13");
    assert!(
        matches!(beyond.as_slice(), [one] if one.starts_with("node1 with ") && one.ends_with("/24, and node3 with 10.99.0.13")),
        "{beyond:?}"
    );
    assert_eq!(found(json!({}), "10.99.0.13"), [""; 0], "a tunnel crosses routers");
    assert_eq!(
        found(json!({"directRouting": true}), "10.99.0.13"),
        [""; 0],
        "and so does what is tunnelled to others only"
    );
    // flanneld takes the first address of an interface that is named.
    let named = |second: &str| {
        let mut site = Site::of(cluster(2, gateway()));
        site.cluster.network.interface = Some("eth1".to_owned());
        for (name, address) in [("node1", "10.88.0.11/24"), ("node2", second)] {
            let facts = site.facts.get_mut(name).unwrap();
            let mut interface = facts.interfaces[0].clone();
            (interface.name, interface.addresses) = ("eth1".to_owned(), vec![address.to_owned()]);
            facts.interfaces.push(interface);
        }
        preflight(&site.cx()).iter().filter(|finding| finding.check == "one-link").count()
    };
    assert_eq!([named("10.88.0.12/24"), named("10.89.0.12/24")], [0, 1]);
    let on_link = Site::of(cluster(3, gateway()));
    assert!(preflight(&on_link.cx()).iter().all(|finding| finding.check != "one-link"));
}

#[test]
fn a_running_cluster_keeps_its_backend() {
    let (_, running) = Site::running(&cluster(2, json!({"backend": "host-gw"})));
    let said = |options: Value| match network::unchanged(&cluster(2, options), &running) {
        Ok(()) => String::new(),
        Err(error) => {
            assert_eq!(error.exit_code(), ExitCode::Preflight);
            error.to_string()
        }
    };
    assert_eq!(said(json!({"backend": "host-gw", "directRouting": false})), "");
    assert!(said(json!({})).contains("spec.network.options.backend is vxlan, and the cluster has host-gw"));
    let (site, before) = Site::running(&cluster(3, json!({})));
    let mut other = site;
    other.cluster.network.options = json!({"mtu": 1400}).as_object().unwrap().clone();
    let refused = add_node(&other.cx(), &before, &["node3".to_owned()]).unwrap_err();
    assert!(matches!(refused, RecipeError::NetworkChanged { .. }), "{refused}");
    assert!(
        refused.to_string().contains("spec.network.options.mtu is 1400, and the cluster has not given"),
        "{refused}"
    );
    network::unchanged(&cluster(2, json!({})), &before).unwrap();
}
