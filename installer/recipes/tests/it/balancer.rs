//! Joins of clusters whose workers have a proxy of their own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use kubexm_plan::balancer::MovedBy;
use kubexm_plan::cluster_facts::AppliedCluster;
use kubexm_plan::facts::SelinuxState;
use kubexm_plan::op::Op;
use kubexm_plan::{ClusterFacts, Probe};
use kubexm_recipes::{add_node, sample};
use kubexm_spec::ExitCode;
use kubexm_spec::cluster::{ExternalKind, InternalKind, LoadBalancerMode, Selinux};

use crate::common::{Site, text};

/// Two control planes and two workers with proxies, of which the second is new; and what the cluster has recorded of its making.
fn site(kind: InternalKind) -> (Site, ClusterFacts) {
    let mut cluster = sample::fleet(2, 2);
    cluster.load_balancer.mode = LoadBalancerMode::Internal { kind, vip: None, port: 6443, interface: None };
    let mut site = Site::of(cluster);
    let map: serde_json::Value = serde_json::from_str(text(&site.create().unwrap(), "kubexm-cluster")).unwrap();
    site.join_all_but("node4");
    let applied = Some(AppliedCluster::of_config_map(&map).unwrap());
    (site, ClusterFacts { applied, ..ClusterFacts::default() })
}

#[test]
fn a_join_gives_proxies_that_run_other_back_ends_and_no_other_image() {
    let (site, running) = site(InternalKind::Haproxy);
    let plan = add_node(&site.cx(), &running, &["node4".to_owned()]).unwrap();
    let files = |host: &str| -> Vec<&str> {
        let step = plan.steps.iter().find(|step| step.id.0 == format!("{host}/balancer.run")).unwrap();
        step.ops.iter().filter_map(|op| if let Op::File(file) = op { Some(file.path.as_str()) } else { None }).collect()
    };
    let (config, pod) = ("/etc/kubexm/haproxy/haproxy.cfg", "/etc/kubernetes/manifests/kubexm-haproxy.yaml");
    assert_eq!(files("node3"), [config], "its pod is not replaced");
    assert_eq!(files("node4"), [config, pod]);
}

#[test]
fn a_proxy_that_the_cluster_does_not_have_yet_comes_with_create_and_not_with_a_join() {
    let (site, _) = site(InternalKind::Nginx);
    for earlier in [sample::fleet(2, 2), self::site(InternalKind::Haproxy).0.cluster] {
        let map: serde_json::Value =
            serde_json::from_str(text(&Site::of(earlier).create().unwrap(), "kubexm-cluster")).unwrap();
        let applied = Some(AppliedCluster::of_config_map(&map).unwrap());
        let running = ClusterFacts { applied, ..ClusterFacts::default() };
        let refused = add_node(&site.cx(), &running, &["node4".to_owned()]).unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::Config);
        let says = refused.to_string();
        assert!(says.contains("nginx on workers") && says.contains("kubexm-install create"), "{says}");
    }
}

#[test]
fn every_control_plane_with_kube_vip_is_asked_for_the_address_once_all_run_it() {
    let mut cluster = sample::fleet(3, 1);
    let vip = Some([10, 77, 0, 100].into());
    cluster.load_balancer.mode =
        LoadBalancerMode::Internal { kind: InternalKind::KubeVip, vip, port: 6443, interface: None };
    let mut site = Site::of(cluster);
    let created = site.create().unwrap();
    site.join_all_but("node3");
    let added = add_node(&site.cx(), &ClusterFacts::default(), &["node3".to_owned()]).unwrap();
    for plan in [created, added] {
        let at = |id: &str| plan.steps.iter().position(|step| step.id.0 == id).unwrap();
        let check = &plan.steps[at("node1/check.holder")];
        let Some(Probe::OneHasAddress { hosts, moved_by: MovedBy::KubeVip, .. }) =
            check.probe.as_ref().map(|timed| &timed.probe)
        else {
            panic!("{check:?}");
        };
        assert_eq!(hosts, &["node1", "node2", "node3"]);
        let order = kubexm_plan::lint::Order::of(&plan);
        assert!(order.is_earlier(at("node3/balancer.rights"), at("node1/check.holder")));
    }
}

#[test]
fn a_host_of_the_load_balancer_that_enforces_selinux_gets_the_booleans_that_its_programs_need() {
    let booleans = |kind, found: SelinuxState, wanted: Selinux| -> Vec<String> {
        let mut cluster = sample::fleet(1, 1);
        cluster.hosts.push(sample::host("lb1", 23));
        cluster.role_groups.load_balancer = vec!["lb1".to_owned()];
        cluster.load_balancer.mode = LoadBalancerMode::External {
            kind,
            vip: [10, 77, 0, 100].into(),
            port: 6443,
            interface: None,
            virtual_router_id: None,
        };
        cluster.system.selinux = wanted;
        let mut site = Site::of(cluster);
        site.facts.values_mut().for_each(|facts| facts.selinux = found);
        let plan = site.create().unwrap();
        let of_host = |host: &str| {
            let steps = plan.steps.iter().filter(|step| step.host == host);
            let names = |op: &Op| if let Op::SelinuxBooleans(all) = op { Some(all.names.clone()) } else { None };
            steps.flat_map(|step| &step.ops).filter_map(names).flatten().collect::<Vec<_>>()
        };
        assert!(of_host("node1").is_empty());
        of_host("lb1")
    };
    let (kh, kn) = (ExternalKind::KubexmKh, ExternalKind::KubexmKn);
    assert_eq!(booleans(kh, SelinuxState::Enforcing, Selinux::Keep), ["haproxy_connect_any", "keepalived_connect_any"]);
    assert_eq!(
        booleans(kn, SelinuxState::Enforcing, Selinux::Confine),
        ["httpd_can_network_connect", "keepalived_connect_any"]
    );
    assert!(booleans(kh, SelinuxState::Enforcing, Selinux::Permissive).is_empty());
    assert!(booleans(kh, SelinuxState::Absent, Selinux::Keep).is_empty());
}
