//! The values of network plugins' charts: the cluster's own networks, and what only the site knows.

use kubexm_manifests::{ChartRelease, releases};
use kubexm_spec::Cluster;
use kubexm_spec::cluster::{Addon, AddonKind, AddonSource, Network, NetworkPlugin};
use serde_json::{Map, Value, json};

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn release(plugin: NetworkPlugin, change: impl Fn(&mut Network)) -> ChartRelease {
    let mut cluster = Cluster::named("x");
    cluster.network.plugin = plugin;
    cluster.network.pod_cidr = "10.233.64.0/18".parse().unwrap();
    cluster.network.service_cidr = "10.233.0.0/18".parse().unwrap();
    change(&mut cluster.network);
    releases(&cluster).remove(0)
}

fn values(plugin: NetworkPlugin, change: impl Fn(&mut Network)) -> Value {
    Value::Object(release(plugin, change).rendered(Map::new()))
}

#[test]
fn charts_get_the_clusters_own_networks_whatever_the_options_say() {
    let other = |network: &mut Network| {
        network.options = map(json!({"ipam": {"operator": {"clusterPoolIPv4PodCIDRList": ["10.0.0.0/8"]}}, "x": 1}));
    };
    let cilium = values(NetworkPlugin::Cilium, other);
    assert_eq!(cilium["ipam"]["operator"]["clusterPoolIPv4PodCIDRList"], json!(["10.233.64.0/18"]));
    assert_eq!((&cilium["ipam"]["operator"]["clusterPoolIPv4MaskSize"], &cilium["x"]), (&json!(24), &json!(1)));
    assert_eq!(cilium["ipam"]["mode"], "kubernetes", "the ranges that nodes have in the API");
    let native = |network: &mut Network| network.options = map(json!({"routingMode": "native"}));
    let native = values(NetworkPlugin::Cilium, native);
    assert_eq!(native["ipv4NativeRoutingCIDR"], "10.233.64.0/18");
    assert!(native.get("ipv6NativeRoutingCIDR").is_none() && cilium.get("ipv4NativeRoutingCIDR").is_none());
    let small = values(NetworkPlugin::Cilium, |network| network.pod_cidr = "10.1.0.0/24".parse().unwrap());
    assert_eq!(small["ipam"]["operator"]["clusterPoolIPv4MaskSize"], 26);
    let hybridnet = values(NetworkPlugin::Hybridnet, |_| ());
    assert_eq!(hybridnet["init"], Value::Null, "a recipe makes the first network");
    let ovn = values(NetworkPlugin::KubeOvn, |_| ());
    assert_eq!(ovn["ipv4"]["POD_CIDR"], "10.233.64.0/18");
    assert_eq!(ovn["ipv4"]["POD_GATEWAY"], "10.233.64.1");
    assert_eq!(ovn["ipv4"]["SVC_CIDR"], "10.233.0.0/18");
    assert_eq!(
        (&ovn["ipv4"]["PINGER_EXTERNAL_ADDRESS"], &ovn["networking"]["NET_STACK"]),
        (&json!(""), &json!("ipv4"))
    );
    let both = values(NetworkPlugin::KubeOvn, |network| {
        network.more_pod_cidrs = vec!["fd00:1::/112".parse().unwrap()];
        network.more_service_cidrs = vec!["fd00:2::/112".parse().unwrap()];
    });
    assert_eq!(both["dual_stack"]["POD_GATEWAY"], "10.233.64.1,fd00:1::1");
    assert_eq!(both["networking"]["NET_STACK"], "dual_stack");
}

#[test]
fn hybridnet_is_put_where_kubeadms_label_is_and_a_user_may_say_otherwise() {
    let usual = values(NetworkPlugin::Hybridnet, |_| ());
    for part in ["manager", "webhook"] {
        assert_eq!(usual[part]["nodeSelector"], json!({"node-role.kubernetes.io/control-plane": ""}), "{part}");
        assert_eq!(usual[part]["replicas"], 1, "{part}");
    }
    let own = values(NetworkPlugin::Hybridnet, |network| network.options = map(json!({"manager": {"replicas": 2}})));
    assert_eq!((&own["manager"]["replicas"], &own["webhook"]["replicas"]), (&json!(2), &json!(1)));
}

#[test]
fn what_only_the_site_knows_has_placeholders_that_a_user_may_replace() {
    let ovn = release(NetworkPlugin::KubeOvn, |_| ());
    let placeholders = ovn.rendered(Map::new());
    assert_eq!((&placeholders["MASTER_NODES"], &placeholders["replicaCount"]), (&json!("192.0.2.1"), &json!(1)));
    let mut real = ovn.rendered(map(json!({"MASTER_NODES": "10.0.0.1,10.0.0.2"})));
    assert_eq!(real.insert("MASTER_NODES".to_owned(), json!("192.0.2.1")), Some(json!("10.0.0.1,10.0.0.2")));
    assert_eq!(real, placeholders);
    let replaces = |network: &mut Network| network.options = map(json!({"kubeProxyReplacement": "true"}));
    let cilium = values(NetworkPlugin::Cilium, replaces);
    assert_eq!((&cilium["k8sServiceHost"], &cilium["k8sServicePort"]), (&json!("192.0.2.1"), &json!(6443)));
    assert_eq!(cilium["operator"]["replicas"], 1);
    assert!(values(NetworkPlugin::Cilium, |_| ()).get("k8sServiceHost").is_none());
}

/// A plugin's chart of the catalogue as an add-on of a cluster without a plugin.
fn addon(chart: &str, values: Value) -> ChartRelease {
    let mut cluster = Cluster::named("x");
    cluster.network.plugin = NetworkPlugin::None;
    cluster.network.pod_cidr = "10.233.64.0/18".parse().unwrap();
    cluster.addons = vec![Addon {
        name: "net".to_owned(),
        kind: AddonKind::Helm,
        source: AddonSource::Catalogue { name: chart.to_owned(), version: None },
        namespace: "kube-system".to_owned(),
        values: map(values),
        values_file: None,
        after: Vec::new(),
        secrets: Vec::new(),
    }];
    releases(&cluster).remove(0)
}

#[test]
fn a_plugin_that_is_an_addon_gets_the_clusters_networks_and_placeholders_unless_its_user_gives_others() {
    let values = |chart: &str, values: Value| Value::Object(addon(chart, values).rendered(Map::new()));
    let cilium = values("cilium", json!({}));
    assert_eq!(cilium["ipam"]["operator"]["clusterPoolIPv4PodCIDRList"], json!(["10.233.64.0/18"]));
    let ovn = values("kube-ovn", json!({}));
    assert_eq!((&ovn["MASTER_NODES"], &ovn["ipv4"]["POD_CIDR"]), (&json!("192.0.2.1"), &json!("10.233.64.0/18")));
    let hybridnet = values("hybridnet", json!({}));
    assert_eq!(hybridnet["init"]["cidr"], "10.233.64.0/18");
    assert_eq!(hybridnet["manager"]["nodeSelector"], json!({"node-role.kubernetes.io/control-plane": ""}));
    let flannel = values("flannel", json!({}));
    assert_eq!((&flannel["podCidr"], &flannel["podCidrv6"]), (&json!("10.233.64.0/18"), &json!("")));
    // what the user says comes first, inline and in a file
    let pool = json!({"ipam": {"operator": {"clusterPoolIPv4PodCIDRList": ["10.1.0.0/16"]}}});
    let own = values("cilium", pool.clone());
    assert_eq!(own["ipam"]["operator"]["clusterPoolIPv4PodCIDRList"], json!(["10.1.0.0/16"]));
    assert_eq!(own["ipv4"]["enabled"], true);
    let file = Value::Object(addon("cilium", json!({})).rendered(map(pool)));
    assert_eq!(file["ipam"]["operator"]["clusterPoolIPv4PodCIDRList"], json!(["10.1.0.0/16"]));
    let replaces = values("cilium", json!({"kubeProxyReplacement": true}));
    assert_eq!(replaces["k8sServiceHost"], "192.0.2.1");
    assert_eq!(values("metrics-server", json!({})), json!({}));
}
