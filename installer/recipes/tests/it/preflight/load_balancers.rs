//! Hosts of a load balancer that kubexm installs.

use std::net::IpAddr;

use kubexm_plan::facts::{Balancer, Interface, Listener, SelinuxState};
use kubexm_recipes::preflight::{Finding, Severity, preflight};
use kubexm_recipes::sample;
use kubexm_spec::cluster::{ExternalKind, InternalKind, LoadBalancerMode};

use super::stamped;
use crate::common::Site;

/// Findings about lb1 of a cluster behind keepalived and haproxy.
fn behind_keepalived(interface: Option<&str>, change: impl FnOnce(&mut Site)) -> Vec<Finding> {
    behind(ExternalKind::KubexmKh, interface, change)
}

fn behind(kind: ExternalKind, interface: Option<&str>, change: impl FnOnce(&mut Site)) -> Vec<Finding> {
    let mut cluster = sample::fleet(1, 1);
    cluster.hosts.push(sample::host("lb1", 23));
    cluster.role_groups.load_balancer = vec!["lb1".to_owned()];
    cluster.load_balancer.mode = LoadBalancerMode::External {
        kind,
        vip: [10, 77, 0, 100].into(),
        port: 6443,
        interface: interface.map(str::to_owned),
        virtual_router_id: None,
    };
    let mut site = Site::of(cluster);
    change(&mut site);
    preflight(&site.cx()).into_iter().filter(|finding| finding.host.as_deref() == Some("lb1")).collect()
}

fn named(findings: &[Finding], word: &str) -> bool {
    findings.iter().any(|finding| finding.severity == Severity::Fail && finding.to_string().contains(word))
}

#[test]
fn keepalived_announces_on_the_interface_by_which_its_hosts_hear_each_other() {
    let second = |site: &mut Site| {
        let eth1 = Interface {
            name: "eth1".to_owned(),
            addresses: vec!["10.77.0.223/24".to_owned()],
            ..site.facts["lb1"].interfaces[0].clone()
        };
        site.facts.get_mut("lb1").unwrap().interfaces.push(eth1);
    };
    let own = behind_keepalived(None, second);
    assert!(!named(&own, "interface"), "{own:?}");
    let other = behind_keepalived(Some("eth1"), second);
    assert!(named(&other, "eth1 is not the interface with the host's address"), "{other:?}");
    let elsewhere = behind_keepalived(None, |site| {
        second(site);
        let facts = site.facts.get_mut("lb1").unwrap();
        facts.interfaces[0].addresses = vec!["10.77.0.23/32".to_owned()];
    });
    assert!(named(&elsewhere, "its address is in no network with 10.77.0.100"), "{elsewhere:?}");
}

/// Findings about a control plane with kube-vip.
fn with_kube_vip(vip: impl Into<IpAddr>, change: impl FnOnce(&mut Site)) -> Vec<Finding> {
    let mut cluster = sample::fleet(2, 1);
    cluster.load_balancer.mode =
        LoadBalancerMode::Internal { kind: InternalKind::KubeVip, vip: Some(vip.into()), port: 6443, interface: None };
    let mut site = Site::of(cluster);
    change(&mut site);
    preflight(&site.cx())
}

#[test]
fn the_address_of_kube_vip_is_one_of_the_control_planes_network_that_no_machine_has() {
    let free = with_kube_vip([10, 77, 0, 100], |_| ());
    assert!(!named(&free, "10.77.0.100"), "{free:?}");
    let elsewhere = with_kube_vip([10, 78, 0, 100], |_| ());
    let hosts: Vec<&str> = elsewhere
        .iter()
        .filter(|one| one.found.starts_with("its address is in no network with 10.78.0.100"))
        .filter_map(|one| one.host.as_deref())
        .collect();
    assert_eq!(hosts, ["node1", "node2"], "a worker announces nothing");
    let pods = sample::fleet(1, 0).network.pod_cidr.hosts().nth(9).unwrap();
    let of_pods = with_kube_vip(pods, |_| ());
    assert!(named(&of_pods, &format!("the load balancer's address {pods} inside spec.network.podCidr")), "{of_pods:?}");
    let has = |host: &'static str, ours: bool| {
        with_kube_vip([10, 77, 0, 100], |site| {
            let facts = site.facts.get_mut(host).unwrap();
            facts.interfaces[0].addresses.push("10.77.0.100/32".to_owned());
            if ours {
                stamped(facts);
            }
        })
    };
    for (host, ours, refused) in [("node1", false, true), ("node1", true, false), ("node3", true, true)] {
        let found = has(host, ours);
        assert_eq!(named(&found, "kube-vip moves it between the control planes"), refused, "{host} {ours}: {found:?}");
    }
}

#[test]
fn a_haproxy_of_the_operators_is_not_stopped_on_a_host_of_the_cluster_either() {
    let with = |ours: bool| {
        behind_keepalived(None, |site| {
            let facts = site.facts.get_mut("lb1").unwrap();
            stamped(facts);
            let program = "haproxy".to_owned();
            facts.balancers.push(Balancer { program, config: None, pid: Some(77), ours });
        })
    };
    assert!(named(&with(false), "haproxy running (pid 77)"), "{:?}", with(false));
    assert!(!named(&with(true), "haproxy running"), "{:?}", with(true));
}

#[test]
fn ports_of_nginx_are_named_where_selinux_enforces() {
    let enforcing = |kind| {
        let found = behind(kind, None, |site| {
            site.facts.get_mut("lb1").unwrap().selinux = SelinuxState::Enforcing;
        });
        let is_of_policy = |finding: &Finding| finding.check == "load-balancers" && finding.found.contains("SELinux");
        found.into_iter().find(is_of_policy).map(|finding| finding.to_string())
    };
    // A boolean that the step switches on covers haproxy's ports, too.
    assert_eq!(enforcing(ExternalKind::KubexmKh), None);
    let nginx = enforcing(ExternalKind::KubexmKn).unwrap();
    assert!(nginx.contains("-p tcp 6443") && !nginx.contains("setsebool"), "{nginx}");
}

#[test]
fn another_proxy_of_kubexms_than_the_one_that_runs_is_refused_with_all_its_units() {
    let found = behind_keepalived(None, |site| {
        let facts = site.facts.get_mut("lb1").unwrap();
        stamped(facts);
        facts.listeners.push(Listener {
            protocol: "tcp".to_owned(),
            port: 6445,
            process: Some("nginx".to_owned()),
            pid: Some(77),
            ours: true,
        });
    });
    assert!(named(&found, "keepalived and nginx of kubexm"), "{found:?}");
    assert!(named(&found, "disable --now kubexm-keepalived kubexm-nginx-check kubexm-nginx`"), "{found:?}");
}
