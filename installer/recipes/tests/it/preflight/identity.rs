//! Who a host is, and what it is to the others: names, addresses, clocks.

use super::*;

#[test]
fn a_name_that_is_no_dns_name_is_refused() {
    let found = findings(|site| {
        let facts = site.facts.remove("node1").unwrap();
        site.cluster.hosts[0].name = "Node_1".to_owned();
        site.cluster.role_groups.control_plane = vec!["Node_1".to_owned()];
        site.facts.insert("Node_1".to_owned(), Facts { hostname: "Node_1".to_owned(), ..facts });
    });
    one(found, Severity::Fail, "hostname", "Node_1");
}

#[test]
fn another_hostname_is_a_warning_and_debians_own_line_is_not() {
    warns(|f| f.hostname = "localhost".to_owned(), "hostname", "localhost");
    warns(|f| f.hostname_addresses = vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))], "hostname", "192.0.2.1");
    passes(|f| f.hostname_addresses = vec![IpAddr::V4(Ipv4Addr::new(10, 77, 0, 11))]);
}

#[test]
fn a_hostname_that_is_another_hosts_name_is_refused() {
    let found = findings(|site| {
        second_host(site);
        site.facts().hostname = "node2".to_owned();
    });
    one(found, Severity::Fail, "hostname", "another host's name");
}

#[test]
fn one_address_for_two_hosts_is_refused() {
    let found = findings(|site| {
        second_host(site);
        site.cluster.hosts[1].internal_address = Some(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 11)));
        site.facts.get_mut("node2").unwrap().interfaces[0].addresses.push("10.77.0.11/24".to_owned());
    });
    one(found, Severity::Fail, "address", "which node1 also has");
}

#[test]
fn a_second_address_is_on_the_first_ones_interface_and_stays_when_the_host_forwards() {
    let with = |change: fn(&mut Facts)| {
        let found = findings(|site| {
            let network = &mut site.cluster.network;
            network.more_pod_cidrs = vec!["fd85:1::/56".parse().unwrap()];
            network.more_service_cidrs = vec!["fd85:2::/112".parse().unwrap()];
            let host = &mut site.cluster.hosts[0];
            host.internal_address = host.node_ip();
            host.more_internal_addresses = vec!["fd00::11".parse().unwrap()];
            change(site.facts());
        });
        found.into_iter().filter(|finding| finding.check == "address").collect::<Vec<_>>()
    };
    let there = |facts: &mut Facts| facts.interfaces[0].addresses.push("fd00::11/64".to_owned());
    one(with(|_| {}), Severity::Fail, "address", "no interface with fd00::11");
    assert_eq!(with(there), []);
    let elsewhere = |facts: &mut Facts| {
        let mut other = facts.interfaces[0].clone();
        other.name = "eth7".to_owned();
        other.addresses = vec!["fd00::11/64".to_owned()];
        facts.interfaces.push(other);
    };
    one(with(elsewhere), Severity::Fail, "address", "fd00::11 on eth7");
    let announced = |facts: &mut Facts| {
        facts.interfaces[0].addresses.push("fd00::11/64".to_owned());
        facts.routers_asked_on = vec!["eth0.100".to_owned()];
    };
    one(with(announced), Severity::Fail, "address", "announced on eth0.100");
}

#[test]
fn a_parameter_that_a_later_file_sets_otherwise_is_refused_before_anything_is_changed() {
    let boot = |value: &str, line: &str| {
        let boot = BootSysctl { value: value.to_owned(), line: line.to_owned() };
        move |f: &mut Facts| drop(f.boot_sysctls.insert("net.ipv4.ip_forward".to_owned(), boot))
    };
    fails(boot("0", "/etc/sysctl.d/99-sysctl.conf:12"), "sysctls", "/etc/sysctl.d/99-sysctl.conf:12 sets net.ipv4");
    passes(boot("1", "/etc/sysctl.d/99-sysctl.conf:12"));
    passes(boot("0", "/usr/lib/sysctl.d/50-default.conf:3"));
}

#[test]
fn nodes_with_different_mtus_are_a_warning() {
    let with = |mtu| {
        findings(|site| {
            second_host(site);
            site.facts.get_mut("node2").unwrap().interfaces[0].mtu = mtu;
        })
    };
    one(with(9000), Severity::Warn, "mtu", "9000 on eth0, and 1500 on eth0 of node1");
    assert_eq!(with(0), Vec::new());
}

/// This many control planes, every one with good facts.
fn control_planes(site: &mut Site, number: u8) {
    for last in 12..11 + number {
        let name = format!("node{}", last - 10);
        site.cluster.hosts.push(sample::host(&name, last));
        site.facts.insert(name.clone(), sample::facts(&name, last));
        site.cluster.role_groups.control_plane.push(name);
    }
}

fn behind(vip: [u8; 4], port: u16) -> LoadBalancerMode {
    LoadBalancerMode::at(vip.into(), port)
}

#[test]
fn several_control_planes_without_a_load_balancer_are_a_warning() {
    let said = findings(|site| control_planes(site, 3));
    assert!(said[0].fix.contains("all of them under one name"), "{}", said[0]);
    one(said, Severity::Warn, "control-planes", "no load balancer");
    let balanced = findings(|site| {
        control_planes(site, 3);
        site.cluster.load_balancer.mode = behind([10, 77, 0, 100], 6443);
    });
    assert_eq!(balanced, Vec::new());
}

/// Findings of a bundle that was built for a proxy on the workers.
fn with_proxy(control_planes: u8, workers: u8, change: impl FnOnce(&mut Site)) -> Vec<Finding> {
    let mut cluster = sample::fleet(control_planes, workers);
    cluster.load_balancer.mode =
        LoadBalancerMode::Internal { kind: InternalKind::Haproxy, vip: None, port: 6443, interface: None };
    let mut site = Site::of(cluster);
    change(&mut site);
    preflight(&site.cx())
}

#[test]
fn a_proxy_on_the_workers_needs_a_worker_that_is_no_control_plane() {
    let alone =
        with_proxy(3, 0, |site| site.cluster.role_groups.worker = site.cluster.role_groups.control_plane.clone());
    one(alone, Severity::Warn, "control-planes", "no host is only a worker");
    assert_eq!(with_proxy(3, 1, |_| ()), Vec::new());
}

#[test]
fn a_proxy_that_cluster_yaml_no_longer_asks_for_is_refused_and_the_one_it_asks_for_is_not() {
    let running = |mode: Option<LoadBalancerMode>| {
        with_proxy(1, 1, |site| {
            if let Some(mode) = mode {
                site.cluster.load_balancer.mode = mode;
            }
            let facts = site.facts.get_mut("node2").unwrap();
            stamped(facts);
            let of = |port| Listener {
                protocol: "tcp".to_owned(),
                port,
                process: Some("haproxy".to_owned()),
                pid: Some(77),
                ours: true,
            };
            facts.listeners = vec![of(6443), of(6444)];
        })
    };
    assert_eq!(running(None), Vec::new());
    let found = running(Some(LoadBalancerMode::None));
    one(found, Severity::Fail, "load-balancers", "a haproxy of kubexm before the API servers");
}

#[test]
fn an_even_number_of_control_planes_is_a_warning() {
    let even = findings(|site| {
        control_planes(site, 2);
        site.cluster.load_balancer.mode = behind([10, 77, 0, 100], 6443);
    });
    one(even, Severity::Warn, "control-planes", "2 control planes, each with an etcd member");
}

#[test]
fn a_load_balancer_that_is_a_control_plane_or_lies_in_our_networks_is_refused() {
    let at = |vip, port| findings(|site| site.cluster.load_balancer.mode = behind(vip, port));
    one(at([10, 77, 0, 11], 6443), Severity::Fail, "control-planes", "10.77.0.11:6443");
    one(at([10, 233, 0, 7], 6443), Severity::Fail, "control-planes", "serviceCidr");
    assert_eq!(at([10, 77, 0, 11], 8443), Vec::new());
}

#[test]
fn an_address_that_no_interface_has_is_refused() {
    fails(|f| f.interfaces[0].addresses = vec!["10.78.0.11/24".to_owned()], "address", "10.77.0.11");
    let named = findings(|site| site.cluster.hosts[0].address = "node1.example".to_owned());
    one(named, Severity::Fail, "address", "internalAddress");
    let interface = findings(|site| site.cluster.network.interface = Some("eth9".to_owned()));
    one(interface, Severity::Fail, "address", "eth9");
}

#[test]
fn a_clock_that_is_off_is_refused_with_half_the_round_trip_allowed() {
    fails(|f| f.clock_offset_ms = 2_600, "time", "2.6 s");
    fails(|f| f.clock_offset_ms = -3_000, "time", "3.0 s");
    passes(|f| {
        f.clock_offset_ms = 2_600;
        f.round_trip_ms = 1_300;
    });
    warns(|f| f.time_services.clear(), "time", "no active time service");
}

#[test]
fn two_nodes_on_either_side_of_the_controller_are_compared_with_each_other() {
    let found = findings(|site| {
        second_host(site);
        site.facts().clock_offset_ms = 1_500;
        site.facts.get_mut("node2").unwrap().clock_offset_ms = -1_500;
    });
    one(found, Severity::Fail, "time", "that of node1 by 3.0 s");
}
