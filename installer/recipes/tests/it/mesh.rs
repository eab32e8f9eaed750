//! Which ports are dialed between which hosts, and what is said of a blocked one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

use crate::common::Site;
use kubexm_plan::facts::{Listener, Stamp};
use kubexm_plan::mesh::{ConnectionCheck, ConnectionResult, Port, Protocol, RouterAdvert};
use kubexm_recipes::mesh::{LOAD_BALANCER, Mesh, NFS_PORT, NFS_SERVER};
use kubexm_recipes::preflight::{Finding, Severity, mesh::findings, preflight};
use kubexm_recipes::sample;
use kubexm_spec::cluster::{EtcdKind, ExternalKind, Firewall, LoadBalancerMode, NetworkPlugin, RegistryKind};

/// Control planes node1 (the registry's too) and node2, worker node3.
fn three() -> Site {
    let mut site = Site::new();
    for (name, last) in [("node2", 12), ("node3", 13)] {
        site.cluster.hosts.push(sample::host(name, last));
        site.facts.insert(name.to_owned(), sample::facts(name, last));
    }
    site.cluster.role_groups.control_plane.push("node2".to_owned());
    site.cluster.role_groups.worker.push("node3".to_owned());
    // Every host serves every other one; a test of its own has that.
    site.cluster.registry.fan_out = false;
    site
}

fn mesh(site: &Site) -> Mesh {
    kubexm_recipes::mesh(&site.cx())
}

fn between(mesh: &Mesh, from: &str, to: &str) -> String {
    let dials = mesh.dials[from].iter().filter(|dial| dial.to == to && dial.pod.is_none());
    dials.map(|dial| dial.port.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_port_that_roles_need_is_dialed_between_different_hosts() {
    let mesh = mesh(&three());
    assert_eq!(between(&mesh, "node1", "node2"), "2379/tcp 2380/tcp 6443/tcp 10250/tcp 8472/udp");
    assert_eq!(between(&mesh, "node2", "node1"), "2379/tcp 2380/tcp 5443/tcp 6443/tcp 10250/tcp 8472/udp");
    assert_eq!(between(&mesh, "node1", "node3"), "10250/tcp 8472/udp");
    assert_eq!(between(&mesh, "node3", "node1"), "5443/tcp 6443/tcp 8472/udp");
    assert_eq!(between(&mesh, "node3", "node2"), "6443/tcp 8472/udp");
    assert!(mesh.dials.iter().all(|(from, dials)| dials.iter().all(|dial| dial.to != *from || dial.pod.is_some())));
}

#[test]
fn hosts_that_take_content_from_each_other_are_dialed_and_a_blocked_one_is_a_warning() {
    let mut site = three();
    site.cluster.registry.fan_out = true;
    let mesh = mesh(&site);
    assert_eq!(between(&mesh, "node3", "node2"), "5444/tcp 6443/tcp 8472/udp");
    assert_eq!(between(&mesh, "node1", "node3"), "5444/tcp 10250/tcp 8472/udp");
    let text = "from 10.77.0.13 to 10.77.0.12 port 5444/tcp: no answer";
    one(&said(&site, "node3", "node2"), Severity::Warn, text);
}

#[test]
fn a_host_that_nobody_reaches_for_content_is_one_warning() {
    let mut site = three();
    site.cluster.registry.fan_out = true;
    let blocked = |site: &Site| {
        let mut dialed: BTreeMap<String, Vec<ConnectionResult>> = BTreeMap::new();
        for (host, dials) in mesh(site).dials {
            let blocked = |dial: &ConnectionCheck| {
                (dial.to == "node2" && dial.port.number == 5444).then(|| "no answer".to_owned())
            };
            let dials = dials.into_iter();
            let dials = dials.map(|dial| ConnectionResult {
                blocked: blocked(&dial),
                dial,
                neighbour: None,
                routers: Vec::new(),
            });
            dialed.insert(host, dials.collect());
        }
        findings(&site.cx(), &dialed)
    };
    let found = blocked(&site);
    one(&found, Severity::Warn, "from 10.77.0.11 and 1 other host to 10.77.0.12 port 5444/tcp: no answer");
    assert_eq!(found[0].host.as_deref(), Some("node2"));
    // With --no-fan-out nobody looks.
    site.without_fan_out = true;
    assert_eq!(blocked(&site), []);
    assert_eq!(between(&mesh(&site), "node3", "node2"), "6443/tcp 8472/udp");
}

#[test]
fn a_host_whose_port_for_content_is_taken_is_a_warning_unless_nobody_would_use_it() {
    let mut site = three();
    let (protocol, process) = ("tcp".to_owned(), Some("java".to_owned()));
    let java = Listener { protocol, port: 5444, process, pid: Some(7), ours: false };
    site.facts.get_mut("node2").unwrap().listeners.push(java);
    let said = |site: &Site| -> Vec<Severity> {
        let found = preflight(&site.cx());
        found.iter().filter(|one| one.found.contains("5444/tcp in use by java")).map(|one| one.severity).collect()
    };
    assert_eq!(said(&site), []);
    site.cluster.registry.fan_out = true;
    assert_eq!(said(&site), [Severity::Warn]);
    site.without_fan_out = true;
    assert_eq!(said(&site), []);
}

#[test]
fn what_is_dialed_is_listened_on() {
    let mut site = three();
    site.cluster.registry.fan_out = true;
    let mesh = mesh(&site);
    for ConnectionCheck { to, port, .. } in mesh.dials.values().flatten() {
        assert!(mesh.listen[to].contains(port), "{to} {port}");
    }
    let distinct: BTreeSet<_> = mesh.listen["node1"].iter().collect();
    assert_eq!(distinct.len(), mesh.listen["node1"].len());
}

#[test]
fn a_new_control_plane_is_dialed_as_from_a_pod_of_its_own_though_no_other_host_is_there() {
    let mesh = mesh(&Site::new());
    let dials: Vec<_> =
        mesh.dials.iter().flat_map(|(from, dials)| dials.iter().map(move |dial| (from, dial))).collect();
    let [(from, dial)] = dials.as_slice() else { panic!("{dials:#?}") };
    assert_eq!((from.as_str(), dial.to.as_str(), dial.port.number), ("node1", "node1", 6443));
    let ends = dial.pod.map(|pod| (pod.pod.to_string(), pod.host.to_string()));
    assert_eq!(ends, Some(("10.233.127.254".to_owned(), "10.233.127.253".to_owned())));
    assert_eq!(mesh.listen["node1"], [dial.port]);
}

#[test]
fn a_node_of_the_cluster_a_worker_and_an_operators_own_network_are_not_dialed_as_from_a_pod() {
    let pods = |site: &Site| -> Vec<String> {
        let mesh = mesh(site);
        mesh.dials.values().flatten().filter(|dial| dial.pod.is_some()).map(|dial| dial.to.clone()).collect()
    };
    let mut site = three();
    assert_eq!(pods(&site), ["node1", "node2"]);
    let stamp = Stamp { cluster: "demo".to_owned(), id: None, run: "r1".to_owned(), bundle: None, adopted: false };
    site.facts.get_mut("node1").unwrap().stamp = Some(stamp);
    assert_eq!(pods(&site), ["node2"]);
    site.cluster.network.plugin = NetworkPlugin::None;
    assert_eq!(pods(&site), [""; 0]);
}

#[test]
fn a_host_where_something_uses_the_pod_network_gets_no_address_of_it_for_a_check() {
    let dialed = |change: &dyn Fn(&mut kubexm_plan::Facts)| {
        let mut site = Site::new();
        change(site.facts.get_mut("node1").unwrap());
        mesh(&site).dials.values().flatten().any(|dial| dial.pod.is_some())
    };
    assert!(dialed(&|_| {}));
    assert!(!dialed(&|facts| facts.routes.push("10.233.0.0/16".to_owned())), "its gateway may be there");
    assert!(!dialed(&|facts| facts.interfaces[0].addresses.push("10.233.100.7/18".to_owned())));
    assert!(!dialed(&|facts| facts.unreadable_stamp = Some("damaged".to_owned())));
}

#[test]
fn a_firewall_that_drops_what_a_hosts_own_pods_send_is_refused_with_the_pod_network() {
    let site = Site::new();
    let found = said(&site, "node1", "node1");
    one(&found, Severity::Fail, "from the pod address 10.233.127.254 to 10.77.0.11 port 6443/tcp: no answer");
    one(&found, Severity::Fail, "accept connections from 10.233.64.0/18 in the chain INPUT of node1");
}

#[test]
fn a_registry_of_its_own_kind_is_dialed_beside_the_depot() {
    let mut site = three();
    (site.cluster.registry.kind, site.cluster.registry.port) = (RegistryKind::Registry, 5000);
    assert_eq!(between(&mesh(&site), "node3", "node1"), "5000/tcp 5443/tcp 6443/tcp 8472/udp");
}

#[test]
fn an_embedded_registry_on_another_port_is_dialed_there_alone() {
    let mut site = three();
    site.cluster.registry.port = 6000;
    assert_eq!(between(&mesh(&site), "node3", "node1"), "6000/tcp 6443/tcp 8472/udp");
}

#[test]
fn the_kernels_own_vxlan_socket_is_not_dialed_since_it_does_not_echo() {
    let mut site = three();
    site.facts.get_mut("node3").unwrap().listeners.push(Listener {
        protocol: "udp".to_owned(),
        port: 8472,
        process: None,
        pid: None,
        ours: false,
    });
    assert_eq!(between(&mesh(&site), "node1", "node3"), "10250/tcp");
}

#[test]
fn all_hosts_dial_the_load_balancer_while_the_control_planes_listen() {
    let mut site = Site::new();
    site.cluster.load_balancer.mode = LoadBalancerMode::at([10, 77, 0, 100].into(), 8443);
    let mesh = mesh(&site);
    assert_eq!(between(&mesh, "node1", LOAD_BALANCER), "8443/tcp");
    assert_eq!(mesh.listen["node1"].len(), 1);
    one(&said(&site, "node1", LOAD_BALANCER), Severity::Warn, "forwards");
}

/// Findings when the first dial between these two is blocked and all others are not.
fn said(site: &Site, from: &str, to: &str) -> Vec<Finding> {
    let mesh = mesh(site);
    let mut dialed: BTreeMap<String, Vec<ConnectionResult>> = BTreeMap::new();
    for (host, dials) in mesh.dials {
        let dials = dials
            .into_iter()
            .map(|dial| ConnectionResult { dial, blocked: None, neighbour: None, routers: Vec::new() })
            .collect();
        dialed.insert(host, dials);
    }
    let first = dialed.get_mut(from).unwrap().iter_mut().find(|dialed| dialed.dial.to == to).unwrap();
    first.blocked = Some("no answer".to_owned());
    findings(&site.cx(), &dialed)
}

#[track_caller]
fn one(found: &[Finding], severity: Severity, text: &str) {
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].severity, severity);
    assert!(found[0].to_string().contains(text), "{}", found[0]);
}

#[test]
fn a_blocked_pair_is_reported_as_a_firewall_ticket_wants_it() {
    let site = three();
    let ip = |name: &str| -> IpAddr { site.cluster.host(name).unwrap().node_ip().unwrap() };
    let ticket = format!("from {} to {} port 6443/tcp: no answer", ip("node3"), ip("node2"));
    one(&said(&site, "node3", "node2"), Severity::Fail, &ticket);
}

#[test]
fn a_firewall_that_the_plan_stops_is_only_a_warning() {
    let mut site = three();
    site.facts.get_mut("node2").unwrap().firewalls = vec!["firewalld.service".to_owned()];
    one(&said(&site, "node3", "node2"), Severity::Fail, "open it in the firewall");
    site.cluster.system.firewall = Firewall::Off;
    one(&said(&site, "node3", "node2"), Severity::Warn, "firewalld.service on node2 will be stopped");
    // nftables.service is left alone, and so is what it blocks.
    site.facts.get_mut("node2").unwrap().firewalls = vec!["nftables.service".to_owned()];
    one(&said(&site, "node3", "node2"), Severity::Fail, "open it in the firewall");
}

/// Hosts of their own for etcd (etcd1, etcd2) and the load balancer (lb1), before control planes node1, node2 and worker node3.
fn with_roles() -> Site {
    let mut site = three();
    for (name, last) in [("etcd1", 21), ("etcd2", 22), ("lb1", 23)] {
        site.cluster.hosts.push(sample::host(name, last));
        site.facts.insert(name.to_owned(), sample::facts(name, last));
    }
    site.cluster.etcd.kind = EtcdKind::Kubexm;
    site.cluster.role_groups.etcd = vec!["etcd1".to_owned(), "etcd2".to_owned()];
    site.cluster.role_groups.load_balancer = vec!["lb1".to_owned()];
    site.cluster.load_balancer.mode = LoadBalancerMode::External {
        kind: ExternalKind::KubexmKh,
        vip: [10, 77, 0, 100].into(),
        port: 8443,
        interface: None,
        virtual_router_id: None,
    };
    site
}

#[test]
fn hosts_of_etcd_and_of_the_load_balancer_are_reached_by_whoever_needs_them_and_by_nobody_else() {
    let mesh = mesh(&with_roles());
    let mut text = String::new();
    for (from, dials) in &mesh.dials {
        let mut to: Vec<&str> = dials.iter().filter(|dial| dial.pod.is_none()).map(|dial| dial.to.as_str()).collect();
        to.dedup();
        for to in to {
            let _ = writeln!(text, "{from} -> {to}: {}", between(&mesh, from, to));
        }
    }
    insta::assert_snapshot!("mesh_of_roles", text);
}

#[test]
fn a_load_balancer_that_runs_is_reached_by_its_address_and_not_by_that_of_its_host() {
    let mut site = with_roles();
    let listener = Listener {
        protocol: "tcp".to_owned(),
        port: 8443,
        process: Some("haproxy".to_owned()),
        pid: Some(7),
        ours: false,
    };
    site.facts.get_mut("lb1").unwrap().listeners.push(listener);
    let mesh = mesh(&site);
    assert!(mesh.dials["node1"].iter().all(|dial| dial.to != "lb1"), "{:?}", mesh.dials["node1"]);
    assert!(mesh.dials["node1"].iter().any(|dial| dial.to == LOAD_BALANCER));
}

#[test]
fn an_address_that_keepalived_is_to_have_is_free_until_then() {
    let site = with_roles();
    let mut dialed: BTreeMap<String, Vec<ConnectionResult>> = BTreeMap::new();
    for (host, dials) in mesh(&site).dials {
        let blocked = |dial: &ConnectionCheck| (dial.to == LOAD_BALANCER).then(|| "refused".to_owned());
        let dials = dials
            .into_iter()
            .map(|dial| ConnectionResult { blocked: blocked(&dial), dial, neighbour: None, routers: Vec::new() })
            .collect();
        dialed.insert(host, dials);
    }
    assert_eq!(findings(&site.cx(), &dialed), []);
    let mut neighbour = |mac: &str| {
        let mut all = dialed.values_mut().flatten().filter(|dialed| dialed.dial.to == LOAD_BALANCER);
        all.next().unwrap().neighbour = Some(mac.to_owned());
        findings(&site.cx(), &dialed)
    };
    assert_eq!(neighbour(&site.facts["lb1"].interfaces[0].mac), [], "it had it before a reset");
    one(&neighbour("52:54:00:ff:ff:01"), Severity::Fail, "remove the address from the machine that has it");
    for dialed in dialed.values_mut().flatten() {
        (dialed.blocked, dialed.neighbour) = (None, None);
    }
    one(&findings(&site.cx(), &dialed), Severity::Fail, "choose another `loadBalancer.vip`");
}

#[test]
fn a_router_id_that_somebody_else_announces_is_refused_and_one_of_the_clusters_own_hosts_is_not() {
    let site = with_roles();
    let mesh = mesh(&site);
    let listens =
        |host: &str| mesh.dials[host].iter().find(|dial| dial.to == LOAD_BALANCER).and_then(|dial| dial.router);
    assert_eq!(
        (listens("lb1"), listens("node1")),
        (Some(100), None),
        "the last byte of the address, on hosts of the role"
    );
    let dialed = |from: [u8; 4]| {
        let routers = vec![RouterAdvert { from: from.into(), router: 100, addresses: vec![[10, 0, 0, 77].into()] }];
        let dials = mesh.dials["lb1"].iter().cloned();
        let blocked = |dial: &ConnectionCheck| (dial.to == LOAD_BALANCER).then(|| "refused".to_owned());
        let all = dials.map(|dial| {
            let routers = if dial.router.is_some() { routers.clone() } else { Vec::new() };
            ConnectionResult { blocked: blocked(&dial), dial, neighbour: None, routers }
        });
        BTreeMap::from([("lb1".to_owned(), all.collect())])
    };
    let found = findings(&site.cx(), &dialed([10, 0, 0, 9]));
    one(&found, Severity::Fail, "loadBalancer.external.virtualRouterId");
    assert_eq!(found[0].found, "10.0.0.9 announces router id 100 by VRRP in this network, for 10.0.0.77");
    let Some(std::net::IpAddr::V4(own)) = site.cx().cluster.host("lb1").and_then(|host| host.node_ip()) else {
        panic!("lb1 has an address")
    };
    assert_eq!(findings(&site.cx(), &dialed(own.octets())), []);
    // Where the load balancer runs already, nobody listens.
    let mut site = site;
    let stamp = Stamp { cluster: "demo".to_owned(), id: None, run: "r1".to_owned(), bundle: None, adopted: false };
    site.facts.get_mut("lb1").unwrap().stamp = Some(stamp);
    assert!(self::mesh(&site).dials.values().flatten().all(|dial| dial.router.is_none()));
}

#[test]
fn an_nfs_server_that_a_node_does_not_reach_is_named_with_the_field() {
    let site = three();
    let port = Port { protocol: Protocol::Tcp, number: NFS_PORT };
    let dial = ConnectionCheck {
        to: NFS_SERVER.to_owned(),
        address: [10, 0, 0, 9].into(),
        port,
        pod: None,
        authority: None,
        router: None,
    };
    let blocked = ConnectionResult { dial, blocked: Some("refused".to_owned()), neighbour: None, routers: Vec::new() };
    let dialed = BTreeMap::from([("node3".to_owned(), vec![blocked])]);
    let found = findings(&site.cx(), &dialed);
    one(&found, Severity::Fail, "from 10.77.0.13 to 10.0.0.9 port 2049/tcp: refused");
    assert!(found[0].fix.contains("spec.storage.nfs.server") && found[0].fix.contains("node3"), "{}", found[0]);
}
