//! Each row of preflight is made to fail, and to pass again, by one change to good facts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod common;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use common::Site;
use kubexm_plan::Facts;
use kubexm_plan::facts::{BootSysctl, Leftover, Listener, ModuleState, SelinuxState, Stamp};
use kubexm_recipes::preflight::{CHECKS, Finding, Severity};
use kubexm_recipes::{preflight, sample};
use kubexm_spec::cluster::{Firewall, LoadBalancerMode, ProxyMode, Registry, RegistryKind};
use kubexm_spec::{Arch, ArtifactKey, Program};

fn findings(change: impl FnOnce(&mut Site)) -> Vec<Finding> {
    let mut site = Site::new();
    change(&mut site);
    preflight(&site.cx())
}

fn after(change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    findings(|site| change(site.facts()))
}

/// There is exactly this one finding, it says `found`, and like every finding how to mend it.
#[track_caller]
fn one(findings: Vec<Finding>, severity: Severity, check: &str, found: &str) {
    let [finding] = findings.as_slice() else { panic!("{findings:#?}") };
    assert_eq!((finding.severity, finding.check.as_str()), (severity, check), "{finding}");
    let text = finding.to_string();
    assert!(text.contains(found), "{text}");
    assert!(!finding.needed.is_empty() && !finding.mend.is_empty(), "{text}");
}

#[track_caller]
fn fails(change: impl FnOnce(&mut Facts), check: &str, found: &str) {
    one(after(change), Severity::Fail, check, found);
}

#[track_caller]
fn warns(change: impl FnOnce(&mut Facts), check: &str, found: &str) {
    one(after(change), Severity::Warn, check, found);
}

#[track_caller]
fn passes(change: impl FnOnce(&mut Facts)) {
    assert_eq!(after(change), Vec::new());
}

const GIB: u64 = 1 << 30;

fn stamped(facts: &mut Facts) {
    facts.stamp = Some(Stamp { cluster: "demo".to_owned(), run: "r1".to_owned() });
}

#[test]
fn good_hosts_have_no_finding() {
    passes(|_| ());
}

#[test]
fn every_check_has_a_name_of_its_own() {
    let names: BTreeSet<_> = CHECKS.iter().map(|c| c.name).collect();
    assert_eq!(names.len(), CHECKS.len());
}

#[test]
fn an_unknown_system_is_refused_and_an_untried_one_is_said() {
    fails(|f| f.os_id = "arch".to_owned(), "os", "arch 12");
    fails(|f| f.os_version = "9".to_owned(), "os", "debian 9");
    passes(|f| f.os_version = "13".to_owned());
    warns(
        |f| {
            f.os_id = "ubuntu".to_owned();
            f.os_version = "22.04".to_owned();
        },
        "os",
        "ubuntu-22.04",
    );
}

#[test]
fn too_few_cpus_and_too_little_memory_are_refused() {
    fails(|f| f.cpus = 1, "hardware", "1 CPU");
    passes(|f| f.cpus = 2);
    fails(|f| f.memory = 3 * GIB, "hardware", "3.0 GiB");
    passes(|f| f.memory = 7 * GIB / 2);
}

#[test]
fn a_worker_may_have_less_memory_than_a_control_plane() {
    let small = |memory| {
        findings(|site| {
            site.cluster.role_groups.control_plane.clear();
            site.facts().memory = memory;
        })
    };
    assert_eq!(small(2 * GIB), Vec::new());
    one(small(GIB), Severity::Fail, "hardware", "1.7 GiB");
}

#[test]
fn a_disk_that_is_too_small_for_the_bundle_is_refused_by_mount_point() {
    fails(|f| f.disks[0].free = 2 * GIB, "space", "2.0 GiB free on /");
    fails(
        |f| {
            let mut etcd = f.disks[0].clone();
            etcd.mount = "/var/lib/etcd".to_owned();
            etcd.free = GIB;
            f.disks.push(etcd);
        },
        "space",
        "/var/lib/etcd",
    );
    one(
        after(|f| {
            stamped(f);
            f.disks[0].free = 2 * GIB;
        }),
        Severity::Warn,
        "space",
        "2.0 GiB",
    );
}

#[test]
fn an_xfs_that_overlayfs_refuses_is_refused() {
    fails(|f| f.disks[0].filesystem = Some("xfs ftype=0".to_owned()), "space", "ftype=0");
    passes(|f| f.disks[0].filesystem = Some("xfs".to_owned()));
}

#[test]
fn what_the_bundle_holds_counts_as_needed_space() {
    let needed = |size| {
        let found = findings(|site| {
            site.facts().disks[0].free = 0;
            for artifact in &mut site.manifest.artifacts {
                artifact.blobs.iter_mut().for_each(|blob| blob.size = size);
            }
        });
        found[0].needed.clone()
    };
    assert_ne!(needed(1 << 20), needed(1 << 30));
}

#[test]
fn a_registrys_own_disk_needs_room_for_every_image() {
    let full = |path: &str| {
        let mut cluster = sample::cluster();
        cluster.registry = Registry { kind: RegistryKind::Registry, port: 5000, data_dir: path.to_owned() };
        let mut site = Site::of(cluster);
        let mut data = site.facts().disks[0].clone();
        (data.mount, data.paths, data.free) = ("/data".to_owned(), Vec::new(), 1 << 20);
        site.facts().disks.push(data);
        preflight(&site.cx())
    };
    one(full("/data/registry"), Severity::Fail, "space", "free on /data");
    // On the store's own disk it is there already.
    assert_eq!(full("/srv/registry"), Vec::new());
}

#[test]
fn without_a_registry_a_worker_needs_room_for_images_in_its_store_and_in_containerd() {
    let store_of = |kind: RegistryKind| {
        let found = findings(|site| {
            second_host(site);
            site.cluster.registry.kind = kind;
            let worker = site.facts.get_mut("node2").unwrap();
            let mut store = worker.disks[0].clone();
            (store.mount, store.free) = ("/var/lib/kubexm".to_owned(), 0);
            worker.disks.push(store);
            for artifact in &mut site.manifest.artifacts {
                artifact.blobs.iter_mut().for_each(|blob| blob.size = 64 << 20);
            }
        });
        found.into_iter().find(|finding| finding.check == "space").unwrap().needed
    };
    assert_ne!(store_of(RegistryKind::None), store_of(RegistryKind::Embedded));
}

#[test]
fn an_old_kernel_is_refused_or_said_by_minor() {
    fails(|f| f.kernel = "2.6.32-754.el6".to_owned(), "kernel", "2.6.32");
    warns(|f| f.kernel = "4.18.0-553.el8_10.x86_64".to_owned(), "kernel", "4.18.0");
    one(
        findings(|site| {
            *site = of_kubernetes("v1.33.13");
            site.facts().kernel = "4.18.0-553.el8_10.x86_64".to_owned();
        }),
        Severity::Fail,
        "kernel",
        "4.19 or newer for Kubernetes v1.33.13",
    );
}

fn of_kubernetes(version: &str) -> Site {
    let mut cluster = sample::cluster();
    cluster.kubernetes.as_mut().unwrap().version = Some(version.to_owned());
    Site::of(cluster)
}

#[test]
fn nftables_wants_a_newer_kernel() {
    let found = findings(|site| {
        site.cluster.kubernetes.as_mut().unwrap().proxy_mode = ProxyMode::Nftables;
        site.facts().kernel = "5.10.0-30-amd64".to_owned();
    });
    one(found, Severity::Fail, "kernel", "nftables");
}

#[test]
fn cgroup_v1_is_said_and_from_1_35_refused_unless_the_user_says_so() {
    warns(|f| f.cgroup_version = 1, "kernel", "cgroup v1");
    let v1 = |wanted: bool| {
        findings(|site| {
            *site = of_kubernetes("v1.35.4");
            site.facts().cgroup_version = 1;
            if wanted {
                let kubelet = &mut site.cluster.kubernetes.as_mut().unwrap().kubelet;
                kubelet.insert("failCgroupV1".to_owned(), false.into());
            }
        })
    };
    one(v1(false), Severity::Fail, "kernel", "failCgroupV1");
    one(v1(true), Severity::Warn, "kernel", "cgroup v1");
}

#[test]
fn a_missing_module_is_refused_and_a_loadable_one_is_not() {
    fails(
        |f| {
            let _ = f.modules.insert("br_netfilter".to_owned(), ModuleState::Missing);
        },
        "kernel",
        "br_netfilter",
    );
    fails(
        |f| {
            let _ = f.modules.remove("overlay");
        },
        "kernel",
        "overlay",
    );
    passes(|f| {
        let _ = f.modules.insert("overlay".to_owned(), ModuleState::Loadable);
    });
}

#[test]
fn large_pages_are_said() {
    warns(|f| f.page_size = 65_536, "kernel", "65536");
}

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
fn another_hostname_is_said_and_debians_own_line_is_not() {
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
    one(found, Severity::Fail, "address", "that of node1");
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
fn nodes_with_packets_of_different_sizes_are_said() {
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
    LoadBalancerMode::External { vip: vip.into(), port }
}

#[test]
fn several_control_planes_without_a_load_balancer_are_said() {
    let said = findings(|site| control_planes(site, 3));
    assert!(said[0].mend.contains("all of them under one name"), "{}", said[0]);
    one(said, Severity::Warn, "control-planes", "no load balancer");
    let balanced = findings(|site| {
        control_planes(site, 3);
        site.cluster.load_balancer.mode = behind([10, 77, 0, 100], 6443);
    });
    assert_eq!(balanced, Vec::new());
}

#[test]
fn an_even_number_of_control_planes_is_said() {
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
    one(found, Severity::Fail, "time", "that of node1");
}

fn second_host(site: &mut Site) {
    site.cluster.hosts.push(sample::host("node2", 12));
    site.facts.insert("node2".to_owned(), sample::facts("node2", 12));
}

#[test]
fn a_missing_program_is_refused_unless_another_does_its_work() {
    fails(|f| drop(f.programs.insert("conntrack".to_owned(), None)), "programs", "conntrack");
    fails(|f| drop(f.programs.remove("socat")), "programs", "socat");
    passes(|f| {
        f.programs.insert("iptables".to_owned(), None);
        f.programs.insert("nft".to_owned(), Some("/usr/sbin/nft".to_owned()));
    });
}

#[test]
fn leftovers_are_refused_unless_they_are_ours() {
    let leftover = |ours| Leftover { what: "/etc/kubernetes/admin.conf".to_owned(), ours };
    fails(|f| f.leftovers.push(leftover(false)), "existing", "/etc/kubernetes/admin.conf");
    passes(|f| f.leftovers.push(leftover(true)));
    passes(|f| {
        stamped(f);
        f.leftovers.push(leftover(false));
    });
    fails(|f| f.stamp = Some(Stamp { cluster: "other".to_owned(), run: "r1".to_owned() }), "existing", "\"other\"");
}

#[test]
fn a_host_of_another_cluster_is_to_be_reset_by_us_and_only_a_strangers_by_kubeadm() {
    let leftover = || Leftover { what: "/etc/kubernetes/admin.conf".to_owned(), ours: false };
    let ours = after(|f| {
        f.stamp = Some(Stamp { cluster: "other".to_owned(), run: "r1".to_owned() });
        f.leftovers.push(leftover());
    });
    assert_eq!(ours.len(), 2, "{ours:#?}");
    for finding in ours {
        assert!(finding.mend.contains("kubexm-install reset -f <cluster.yaml of \"other\">"), "{finding}");
        assert!(!finding.mend.contains("kubeadm") && !finding.mend.contains("stamp.json"), "{finding}");
    }
    let strangers = after(|f| f.leftovers.push(leftover()));
    assert!(strangers[0].mend.contains("`kubeadm reset`"), "{strangers:#?}");
}

fn listener(protocol: &str, port: u16, process: Option<&str>, ours: bool) -> Listener {
    Listener {
        protocol: protocol.to_owned(),
        port,
        process: process.map(str::to_owned),
        pid: process.map(|_| 512),
        ours,
    }
}

#[test]
fn a_taken_port_is_refused_with_process_and_pid() {
    fails(
        |f| f.listeners.push(listener("tcp", 6443, Some("nginx"), false)),
        "ports",
        "6443/tcp held by nginx (pid 512)",
    );
    fails(|f| f.listeners.push(listener("udp", 8472, None, false)), "ports", "8472/udp");
    fails(|f| f.listeners.push(listener("tcp", 5443, Some("java"), false)), "ports", "5443/tcp");
    passes(|f| f.listeners.push(listener("tcp", 6443, Some("kube-apiserver"), true)));
    passes(|f| f.listeners.push(listener("tcp", 80, Some("nginx"), false)));
    passes(|f| f.listeners.push(listener("udp", 6443, Some("x"), false)));
}

#[test]
fn on_a_host_of_ours_the_right_process_may_hold_its_port_and_another_may_not() {
    passes(|f| {
        stamped(f);
        f.listeners.push(listener("tcp", 10257, Some("kube-controller"), false));
        f.listeners.push(listener("udp", 8472, None, false));
    });
    fails(
        |f| {
            stamped(f);
            f.listeners.push(listener("tcp", 10257, Some("nginx"), false));
        },
        "ports",
        "nginx",
    );
}

#[test]
fn a_resolv_conf_without_use_is_said_unless_cluster_yaml_names_servers() {
    warns(|f| f.nameservers = None, "resolv.conf", "no /etc/resolv.conf");
    warns(|f| f.nameservers = Some(Vec::new()), "resolv.conf", "no nameserver");
    let loopback = vec![IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53))];
    warns(|f| f.nameservers = Some(loopback.clone()), "resolv.conf", "loopback");
    let behind_the_stub = |servers| {
        let stub = loopback.clone();
        move |f: &mut Facts| {
            f.nameservers = Some(stub);
            f.resolved_nameservers = Some(servers);
        }
    };
    passes(behind_the_stub(vec![IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1))]));
    warns(behind_the_stub(Vec::new()), "resolv.conf", "systemd-resolved");
    let named = findings(|site| {
        site.facts().nameservers = None;
        site.cluster.extra.resolves = vec![IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1))];
    });
    assert_eq!(named, Vec::new());
}

#[test]
fn selinux_firewall_and_swap_are_said() {
    warns(|f| f.selinux = SelinuxState::Enforcing, "settings", "SELinux");
    passes(|f| f.selinux = SelinuxState::Permissive);
    warns(|f| f.fapolicyd = true, "settings", "fapolicyd");
    warns(|f| f.fips = true, "settings", "FIPS");
    warns(|f| f.firewalls = vec!["firewalld".to_owned()], "settings", "kept");
    let off = findings(|site| {
        site.cluster.system.firewall = Firewall::Off;
        site.facts().firewalls = vec!["ufw".to_owned()];
    });
    one(off, Severity::Warn, "settings", "will be stopped");
    warns(|f| f.swaps = vec!["/dev/sda2".to_owned()], "settings", "/dev/sda2");
    warns(|f| f.fstab_swaps = vec!["/swap none swap sw 0 0".to_owned()], "settings", "/swap");
}

#[test]
fn a_proxy_is_said_with_the_file_that_sets_it() {
    warns(
        |f| f.proxies = vec![("https_proxy".to_owned(), "/etc/environment".to_owned())],
        "proxies",
        "https_proxy set in /etc/environment",
    );
}

#[test]
fn a_noexec_mount_is_refused() {
    fails(|f| f.noexec = vec!["/usr/local".to_owned()], "noexec", "/usr/local");
}

#[test]
fn clones_are_refused() {
    let with = |change: fn(&mut Facts, &Facts)| {
        findings(|site| {
            second_host(site);
            let first = site.facts().clone();
            change(site.facts.get_mut("node2").unwrap(), &first);
        })
    };
    assert_eq!(with(|_, _| ()), Vec::new());
    one(with(|f, first| f.machine_id.clone_from(&first.machine_id)), Severity::Fail, "clones", "machine id");
    one(with(|f, first| f.product_uuid.clone_from(&first.product_uuid)), Severity::Fail, "clones", "product uuid");
    one(
        with(|f, first| f.interfaces[0].mac.clone_from(&first.interfaces[0].mac)),
        Severity::Fail,
        "clones",
        "hardware address",
    );
}

#[test]
fn machines_without_a_uuid_are_no_clones() {
    let found = findings(|site| {
        second_host(site);
        site.facts().product_uuid.clear();
        site.facts.get_mut("node2").unwrap().product_uuid.clear();
        site.facts().interfaces[0].mac = "00:00:00:00:00:00".to_owned();
        site.facts.get_mut("node2").unwrap().interfaces[0].mac = "00:00:00:00:00:00".to_owned();
    });
    assert_eq!(found, Vec::new());
}

#[test]
fn networks_that_overlap_are_refused() {
    fails(|f| f.routes.push("10.233.70.0/24".to_owned()), "networks", "10.233.70.0/24");
    fails(|f| f.routes.push("10.0.0.0/8".to_owned()), "networks", "10.0.0.0/8");
    let each_other = findings(|site| site.cluster.network.service_cidr = "10.233.64.0/20".to_owned());
    one(each_other, Severity::Fail, "networks", "serviceCidr 10.233.64.0/20");
    let no_network = findings(|site| site.cluster.network.pod_cidr = "pods".to_owned());
    one(no_network, Severity::Fail, "networks", "\"pods\"");
    let node = findings(|site| site.cluster.network.pod_cidr = "10.77.0.0/16".to_owned());
    assert!(node.iter().any(|f| f.found.contains("node's address")), "{node:#?}");
}

#[test]
fn our_own_bridges_and_routes_are_no_overlap_on_a_second_run() {
    passes(|f| {
        stamped(f);
        f.routes.extend(["10.233.64.0/24".to_owned(), "10.233.0.0/18".to_owned()]);
    });
    fails(
        |f| {
            stamped(f);
            f.routes.push("10.0.0.0/8".to_owned());
        },
        "networks",
        "10.0.0.0/8",
    );
}

#[test]
fn a_host_of_a_platform_that_the_bundle_lacks_is_refused() {
    fails(|f| f.arch = None, "bundle", "does not know");
    fails(|f| f.arch = Some(Arch::Arm64), "bundle", "linux/arm64");
}

#[test]
fn a_bundle_that_lacks_something_is_refused_with_all_that_it_lacks() {
    let found = findings(|site| {
        let lost = [ArtifactKey::Binary(Program::Kubectl), ArtifactKey::Binary(Program::Runc)];
        site.manifest.artifacts.retain(|a| !lost.contains(&a.key));
    });
    let text = found[0].to_string();
    assert!(text.contains("binary/kubectl 1.34.4 for linux/amd64") && text.contains("binary/runc"), "{text}");
}

#[test]
fn problems_of_all_hosts_are_reported_together() {
    let found = findings(|site| {
        second_host(site);
        site.facts().cpus = 1;
        site.facts.get_mut("node2").unwrap().kernel = "2.6.32".to_owned();
    });
    let named: Vec<_> = found.iter().map(|f| (f.host.as_deref().unwrap_or_default(), f.check.as_str())).collect();
    assert_eq!(named, [("node1", "hardware"), ("node2", "kernel")]);
}
