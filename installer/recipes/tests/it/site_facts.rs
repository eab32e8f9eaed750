//! Charts whose values are made of the site get those of the cluster's own hosts.

use kubexm_manifests::releases;
use kubexm_recipes::sample;
use kubexm_recipes::site_facts::site_facts;
use kubexm_spec::cluster::NetworkPlugin;
use serde_json::Map;

use crate::common::Site;

#[test]
fn a_chart_gets_the_clusters_control_planes_nodes_and_api_server() {
    let site = Site::of(sample::fleet(3, 2));
    let cx = site.cx();
    let facts = site_facts(&cx, &cx.nodes().unwrap()).unwrap();
    assert_eq!(facts.control_planes, ["10.77.0.11", "10.77.0.12", "10.77.0.13"]);
    assert_eq!((facts.nodes, facts.api_host.as_str()), (5, cx.control_plane_name().as_str()));
    assert_eq!(facts.api_port, cx.cluster.control_plane_port());
    let mut cluster = site.cluster.clone();
    cluster.network.plugin = NetworkPlugin::KubeOvn;
    let values = releases(&cluster).remove(0).installed(Map::new(), &facts);
    assert_eq!(values["MASTER_NODES"], "10.77.0.11,10.77.0.12,10.77.0.13");
}

#[test]
fn a_host_that_only_serves_the_registry_is_no_node() {
    let mut cluster = sample::fleet(1, 1);
    cluster.hosts.push(sample::host("depot", 99));
    cluster.role_groups.registry = vec!["depot".to_owned()];
    let site = Site::of(cluster);
    let cx = site.cx();
    assert_eq!(site_facts(&cx, &cx.nodes().unwrap()).unwrap().nodes, 2);
}
