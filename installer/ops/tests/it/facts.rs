//! Each row of preflight looks at a fact, and each fact can be made to be what fails the row.

#![allow(clippy::expect_used, clippy::panic, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::net::IpAddr;

use crate::common::Host;
use kubexm_ops::{dispatch, facts};
use kubexm_plan::Facts;
use kubexm_plan::facts::{DataFolders, ModuleState, SelinuxState};
use kubexm_plan::op::{Binary, Op, Stamp};
use kubexm_spec::{Arch, Digest};

fn look(host: &Host) -> Facts {
    facts::collect(&host.machine, "node1").expect("facts")
}

#[test]
fn a_fresh_debian_is_seen_as_it_is() {
    let facts = look(&Host::fresh());
    assert_eq!((facts.os_id.as_str(), facts.os_version.as_str()), ("debian", "12"));
    assert_eq!((facts.host.as_str(), facts.hostname.as_str()), ("node1", "debian"));
    assert_eq!(facts.hostname_addresses, ["127.0.1.1".parse::<IpAddr>().expect("an address")]);
    assert_eq!((facts.arch, facts.cpus, facts.page_size, facts.cgroup_version), (Some(Arch::Amd64), 4, 4096, 2));
    assert_eq!(facts.memory, 8_147_392 * 1024);
    assert!(facts.default_route);
    assert_eq!(facts.routes, ["10.0.0.0/24"]);
    assert_eq!(facts.nameservers, Some(vec!["10.0.0.1".parse().expect("an address")]));
    assert_eq!(facts.swaps, ["/dev/sda5"]);
    assert_eq!(facts.fstab_swaps.len(), 1);
    assert_eq!(facts.selinux, SelinuxState::Absent);
    assert_eq!(facts.filesystems.iter().map(String::as_str).collect::<Vec<_>>(), ["bpf", "cgroup2"]);
    assert_eq!(facts.modules["overlay"], ModuleState::Present);
    assert_eq!(facts.modules["br_netfilter"], ModuleState::Loadable);
    assert_eq!(facts.programs["conntrack"].as_deref(), Some("/usr/sbin/conntrack"));
    assert_eq!(facts.programs["nft"], None);
    assert_eq!(facts.listeners.iter().map(|l| l.port).collect::<Vec<_>>(), [22]);
    assert!(facts.leftovers.is_empty() && facts.proxies.is_empty() && facts.noexec.is_empty());
    assert_eq!(facts.stamp, None);
    assert_eq!(facts.disks.len(), 1);
    assert_eq!(facts.timezones, ["Asia/Shanghai", "Etc/UTC"]);
}

#[test]
fn hardware_and_kernel_are_what_the_machine_shows() {
    let host = Host::fresh();
    host.put("/run/kubexm-double/cpus", "1");
    host.put("/run/kubexm-double/page-size", "65536");
    host.put("/run/kubexm-double/arch", "aarch64\n");
    host.put("/proc/meminfo", "MemTotal: 1000 kB\n");
    host.put("/proc/sys/kernel/osrelease", "3.9.0\n");
    host.put("/run/kubexm-double/missing-modules.json", "[\"br_netfilter\"]");
    host.put("/proc/filesystems", "nodev\tsysfs\nnodev\tcgroup\n\text4\n");
    std::fs::remove_dir_all(host.machine.path("/sys/fs/cgroup")).expect("gone");
    let facts = look(&host);
    assert_eq!((facts.arch, facts.cpus, facts.page_size, facts.cgroup_version), (Some(Arch::Arm64), 1, 65536, 1));
    assert_eq!((facts.memory, facts.kernel.as_str()), (1_024_000, "3.9.0"));
    assert_eq!(facts.modules["br_netfilter"], ModuleState::Missing);
    assert!(facts.filesystems.is_empty(), "{:?}", facts.filesystems);
}

#[test]
fn a_module_that_is_built_in_is_present() {
    let host = Host::fresh();
    host.put("/lib/modules/6.1.0-37-amd64/modules.builtin", "kernel/net/bridge/br_netfilter.ko\n");
    assert_eq!(look(&host).modules["br_netfilter"], ModuleState::Present);
}

#[test]
fn a_disk_of_the_machines_own_is_seen_wherever_it_is_mounted_and_those_of_pods_and_servers_are_not() {
    let host = Host::fresh();
    host.put(
        "/proc/self/mountinfo",
        "25 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n26 25 8:2 / /data rw - xfs /dev/sdb1 rw\n\
         27 25 8:3 / /var/lib/kubelet/pods/1/volumes/a rw - ext4 /dev/sdc rw\n28 25 0:40 / /home rw - nfs4 nas:/home rw\n\
         29 25 8:1 /etc/a /etc/a rw - ext4 /dev/sda1 rw\n",
    );
    for folder in ["/data/.", "/var/lib/kubelet/pods/1/volumes/a/.", "/home/."] {
        std::fs::create_dir_all(host.machine.path(folder)).expect("a folder");
    }
    host.put("/etc/a", "a file that something is mounted over");
    let facts = look(&host);
    let mounts: Vec<&str> = facts.disks.iter().map(|disk| disk.mount.as_str()).collect();
    assert_eq!(mounts, ["/", "/data"]);
}

#[test]
fn a_full_disk_and_noexec_are_found_by_mount_point() {
    let host = Host::fresh();
    host.put(
        "/proc/self/mountinfo",
        "25 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n26 25 8:2 / /var rw,noatime shared:2 - xfs /dev/sda2 rw\n\
         27 25 8:3 / /usr/local rw,noexec - ext4 /dev/sda3 rw\n",
    );
    host.put("/run/kubexm-double/space.json", "{\"/var\":[1000,2000]}");
    let facts = look(&host);
    let var = facts.disks.iter().find(|disk| disk.mount == "/var").expect("a disk");
    assert_eq!((var.free, var.size, var.filesystem.as_deref()), (1000, 2000, Some("xfs")));
    assert!(var.paths.contains(&"/var/lib/containerd".to_owned()));
    assert_eq!(facts.noexec, ["/usr/local"]);
}

#[test]
fn noexec_is_found_where_images_and_volumes_have_their_programs() {
    let host = Host::fresh();
    host.put(
        "/proc/self/mountinfo",
        "25 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n26 25 8:2 / /var rw,noexec - ext4 /dev/sda2 rw\n\
         27 26 8:3 / /var/lib/kubelet rw,noexec,nosuid - ext4 /dev/sda3 rw\n28 25 8:4 / /opt rw - ext4 /dev/sda4 rw\n",
    );
    assert_eq!(look(&host).noexec, ["/var", "/var/lib/kubelet"]);
}

#[test]
fn a_taken_port_is_named_with_its_process_and_ours_is_known_by_the_ledger() {
    let host = Host::fresh();
    host.put("/proc/net/tcp", "sl local\n 0: 00000000:192B 00000000:0000 0A 0:0 0:0 0 0 0 4242 1\n");
    host.put("/proc/net/udp", "sl local\n 0: 00000000:2118 00000000:0000 07 0:0 0:0 0 0 0 4343 1\n");
    host.put("/proc/77/comm", "apiserver\n");
    host.put("/proc/77/fd/.keep", "");
    let link = |path: &str, target: &str| {
        std::os::unix::fs::symlink(target, host.machine.path(path)).expect("a link");
    };
    link("/proc/77/fd/3", "socket:[4242]");
    link("/proc/77/exe", "/usr/local/bin/tool");
    let found = look(&host).listeners;
    assert_eq!(found.len(), 2);
    assert_eq!(
        (found[0].port, found[0].process.as_deref(), found[0].pid, found[0].ours),
        (6443, Some("apiserver"), Some(77), false)
    );
    assert_eq!((found[1].protocol.as_str(), found[1].port, found[1].pid), ("udp", 8472, None));

    let blob = host.blob("tool");
    let step = kubexm_plan::Step::on("node1", "a.b", "Install it")
        .ensure(Op::from(Binary { path: "/usr/local/bin/tool".into(), blob, mode: 0o755 }))
        .undo(kubexm_plan::Undo::RestoreBefore)
        .build();
    kubexm_ops::step::converge(&step, &host.machine, "r1", 1, &[]).expect("step");
    assert!(look(&host).listeners[0].ours);
}

#[test]
fn sealed_authorities_and_the_registrys_ca_are_seen_and_a_huge_file_is_cut() {
    let host = Host::fresh();
    let facts = look(&host);
    assert_eq!((facts.sealed_authorities, facts.registry_ca), (None, None));
    host.put("/etc/kubexm/depot/ca.crt", "of the depot");
    assert_eq!(look(&host).registry_ca, Some(Digest::of("of the depot")));
    host.put("/etc/kubexm/registry-ca.crt", "of a node");
    host.put("/etc/kubexm/authorities.json", "{}");
    let facts = look(&host);
    assert_eq!((facts.sealed_authorities.as_deref(), facts.registry_ca), (Some("{}"), Some(Digest::of("of a node"))));
    host.put("/etc/kubexm/authorities.json", "x".repeat(Facts::SEALED_MOST + 1));
    assert_eq!(look(&host).sealed_authorities.map(|text| text.len()), Some(Facts::SEALED_MOST));
}

#[test]
fn an_unreadable_stamp_is_reported_as_a_fact_and_never_replaced() {
    let host = Host::fresh();
    let stamp = Op::from(Stamp { cluster: "lab".into(), id: None, bundle: None, adopted: false });
    let (id, later) =
        ("{\"cluster\":\"lab\",\"id\":\"one\",\"run\":\"r\"}", "{\"cluster\":\"other\",\"run\":\"r\",\"later\":1}");
    for damaged in ["", "{\"cluster\":\"other\"", later, id] {
        host.put("/var/lib/kubexm/stamp.json", damaged);
        let facts = look(&host);
        assert_eq!(facts.stamp, None);
        let refused = dispatch::observe(&stamp, &host.machine).map(drop).expect_err("refused");
        for text in [facts.unreadable_stamp.expect("said"), refused.full()] {
            assert!(text.contains("stamp.json") && text.contains("cannot be read"), "{text}");
            assert!(text.contains("which cluster") && text.contains("remove it"), "{text}");
        }
        assert_eq!(host.read("/var/lib/kubexm/stamp.json"), damaged);
    }
}

#[test]
fn a_stamp_gets_the_clusters_id_and_never_another_ones() {
    let host = Host::fresh();
    host.put("/var/lib/kubexm/stamp.json", "{\"cluster\":\"lab\",\"run\":\"r\"}");
    assert_eq!(look(&host).stamp.expect("a stamp").id, None, "of a program that made no ids");
    let [one, other] = [1, 2].map(|byte| Some(kubexm_plan::ClusterId::from_random([byte; 16])));
    let stamp = |id| Op::from(Stamp { cluster: "lab".into(), id, bundle: None, adopted: false });
    assert!(!dispatch::observe(&stamp(one), &host.machine).expect("observe").satisfied);
    dispatch::converge(&stamp(one), &host.machine).expect("stamp");
    assert_eq!(look(&host).stamp.expect("a stamp").id, one);
    let older = dispatch::observe(&stamp(None), &host.machine).expect("observe");
    assert!(older.satisfied, "a plan that says nothing of ids removes none");
    let refused = dispatch::converge(&stamp(other), &host.machine).expect_err("another cluster").full();
    assert!([one, other].iter().flatten().all(|id| refused.contains(&id.to_string())), "{refused}");
    assert_eq!(look(&host).stamp.expect("a stamp").id, one);
}

#[test]
fn a_stamp_says_which_bundle_was_installed_and_one_from_before_gets_it() {
    let host = Host::fresh();
    host.put("/var/lib/kubexm/stamp.json", "{\"cluster\":\"lab\",\"run\":\"r\"}");
    assert_eq!(look(&host).stamp.and_then(|stamp| stamp.bundle), None);
    let manifest = kubexm_spec::Digest::of("manifest.json");
    let bundle = kubexm_plan::BundleRecord {
        manifest,
        signers: ["ab".repeat(16)].into(),
        date: Some(1_790_000_000),
        sequence: Some(7),
    };
    let stamp = Op::from(Stamp { cluster: "lab".into(), id: None, bundle: Some(bundle.clone()), adopted: false });
    let found = dispatch::observe(&stamp, &host.machine).expect("observe");
    assert!(!found.satisfied, "the bundle is not in it yet");
    dispatch::converge(&stamp, &host.machine).expect("stamp");
    assert_eq!(look(&host).stamp.and_then(|stamp| stamp.bundle), Some(bundle));
    let older_plan = Op::from(Stamp { cluster: "lab".into(), id: None, bundle: None, adopted: false });
    let found = dispatch::observe(&older_plan, &host.machine).expect("observe");
    assert!(found.satisfied, "a plan that says nothing of bundles forgets none");
}

#[test]
fn the_stamp_of_an_adopted_cluster_is_made_anew_only_for_it_and_so_is_that_of_one_that_kubexm_made() {
    let host = Host::fresh();
    let stamp = |adopted| Op::from(Stamp { cluster: "lab".into(), id: None, bundle: None, adopted });
    dispatch::converge(&stamp(true), &host.machine).expect("adopted");
    assert!(look(&host).stamp.expect("a stamp").adopted);
    assert!(dispatch::observe(&stamp(true), &host.machine).expect("observe").satisfied);
    assert!(!dispatch::observe(&stamp(false), &host.machine).expect("observe").satisfied);
    let refused = dispatch::converge(&stamp(false), &host.machine).expect_err("a create").full();
    assert!(refused.contains("was adopted"), "{refused}");
    assert!(look(&host).stamp.expect("a stamp").adopted);

    let made = Host::fresh();
    dispatch::converge(&stamp(false), &made.machine).expect("made");
    let text = made.read("/var/lib/kubexm/stamp.json");
    assert!(!text.contains("adopted"), "programs from before read it: {text}");
    let refused = dispatch::converge(&stamp(true), &made.machine).expect_err("an adoption").full();
    assert!(refused.contains("cannot be adopted"), "{refused}");
}

#[test]
fn the_disk_of_an_etcd_that_is_somebodys_is_not_written_to() {
    let host = Host::fresh();
    host.put("/run/kubexm-double/write-us", "900");
    let folders = DataFolders { etcd: Some("/var/lib/etcd".to_owned()), ..DataFolders::default() };
    let written = || facts::collect_with(&host.machine, "node1", &folders).expect("facts").etcd_write_us;
    assert_eq!(written(), Some(900));
    host.put("/var/lib/etcd/member/wal/0.wal", "x");
    assert_eq!(written(), None);
}

#[test]
fn leftovers_of_others_are_named_and_those_of_our_own_cluster_are_ours() {
    let host = Host::fresh();
    host.put("/etc/kubernetes/admin.conf", "x");
    host.put("/etc/cni/net.d/10-x.conflist", "x");
    host.put("/proc/80/comm", "dockerd\n");
    host.put("/proc/81/comm", "containerd-shim\n");
    host.put("/proc/82/comm", "etcd\n");
    let found = look(&host).leftovers;
    let what: Vec<&str> = found.iter().map(|leftover| leftover.what.as_str()).collect();
    let wanted = [
        "/etc/cni/net.d/10-x.conflist",
        "/etc/kubernetes/admin.conf",
        "docker with 1 containers",
        "etcd running (pid 82)",
    ];
    assert_eq!(what, wanted);
    assert!(found.iter().all(|leftover| !leftover.ours));

    dispatch::converge(&Stamp { cluster: "lab".into(), id: None, bundle: None, adopted: false }.into(), &host.machine)
        .expect("stamp");
    let facts = look(&host);
    assert_eq!(facts.stamp.map(|stamp| stamp.cluster).as_deref(), Some("lab"));
    let ours: Vec<bool> = facts.leftovers.iter().map(|leftover| leftover.ours).collect();
    assert_eq!(ours, [true, true, false, false], "docker and an etcd outside a pod are not ours");
}

#[test]
fn podman_containers_and_an_installed_runtime_are_leftovers_too() {
    let host = Host::fresh();
    host.put("/proc/80/comm", "conmon\n");
    host.put("/usr/lib/systemd/system/docker.service", "[Service]\n");
    host.put("/etc/containerd/config.toml", "version = 2\n");
    let found = look(&host).leftovers;
    let what: Vec<&str> = found.iter().map(|leftover| leftover.what.as_str()).collect();
    let wanted = [
        "/etc/containerd/config.toml (installed)",
        "/usr/lib/systemd/system/docker.service (installed)",
        "podman with 1 containers",
    ];
    assert_eq!(what, wanted);
}

#[test]
fn names_routes_and_resolvers_of_an_isolated_network() {
    let host = Host::fresh();
    host.put(
        "/etc/hosts",
        "127.0.0.1 localhost\n# BEGIN KubeXM Managed Block\n10.0.0.9 debian\n# END KubeXM Managed Block\n",
    );
    host.put("/proc/net/route", "Iface Destination\neth0 0000000A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n");
    std::fs::remove_file(host.machine.path("/etc/resolv.conf")).expect("gone");
    let facts = look(&host);
    assert!(facts.hostname_addresses.is_empty(), "our own block counted");
    assert!(!facts.default_route);
    assert_eq!((facts.nameservers, facts.resolved_nameservers), (None, None));
}

#[test]
fn what_a_router_announced_goes_once_the_host_forwards_unless_it_asks_on() {
    let host = Host::fresh();
    let zero = "0".repeat(32);
    let route = |device: &str, flags: &str| {
        format!("{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 00000001 00000000 {flags} {device}\n")
    };
    let routes = [("eth0.100", "00450003"), ("eth1", "00450003"), ("eth2", "00000003")];
    host.put("/proc/net/ipv6_route", routes.map(|(device, flags)| route(device, flags)).concat());
    for (device, accepts) in [("eth0.100", "1\n"), ("eth1", "2\n"), ("eth2", "1\n")] {
        host.put(&format!("/proc/sys/net/ipv6/conf/{device}/accept_ra"), accepts);
    }
    let facts = look(&host);
    assert_eq!(facts.routers_asked_on, ["eth0.100"]);
    assert!(facts.routes.iter().all(|route| !route.ends_with("/0")), "{:?}", facts.routes);
}

#[test]
fn servers_behind_systemd_resolved_are_read_and_its_file_is_ignored_elsewhere() {
    let host = Host::fresh();
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    host.put("/run/systemd/resolve/resolv.conf", "nameserver 10.0.0.7\nnameserver fe80::1%eth0\nsearch lan\n");
    assert_eq!(look(&host).resolved_nameservers, None);
    host.put("/etc/resolv.conf", "nameserver 127.0.0.53\noptions edns0 trust-ad\n");
    let facts = look(&host);
    assert_eq!(facts.nameservers, Some(vec![address("127.0.0.53")]));
    assert_eq!(facts.resolved_nameservers, Some(vec![address("10.0.0.7"), address("fe80::1")]));
}

#[test]
fn settings_that_will_be_changed_or_clash_are_seen() {
    let host = Host::fresh();
    host.put("/sys/fs/selinux/enforce", "1");
    host.put("/etc/environment", "PATH=/bin\n");
    host.put("/etc/profile.d/proxy.sh", "# export no_proxy=x\nexport HTTPS_PROXY=http://10.0.0.8:3128\n");
    host.unit("firewalld.service", "/usr/sbin/firewalld");
    host.unit("ufw.service", "/usr/sbin/ufw");
    host.unit("chrony.service", "/usr/sbin/chronyd");
    host.unit("fapolicyd.service", "/usr/sbin/fapolicyd");
    host.put("/proc/sys/crypto/fips_enabled", "1\n");
    let before = look(&host);
    assert!(before.fips && !before.fapolicyd, "what is installed and does not run refuses nothing");
    for name in ["firewalld.service", "ufw.service", "chrony.service", "fapolicyd.service"] {
        let unit = kubexm_plan::op::Unit {
            name: name.into(),
            enabled: true,
            running: Some(true),
            loaded: vec![],
            reloaded: Vec::new(),
        };
        dispatch::converge(&unit.into(), &host.machine).expect("a unit");
    }
    let facts = look(&host);
    assert_eq!(facts.selinux, SelinuxState::Enforcing);
    assert!(facts.fapolicyd);
    assert_eq!(facts.proxies, [("HTTPS_PROXY".to_owned(), "/etc/profile.d/proxy.sh".to_owned())]);
    assert_eq!(facts.firewalls, ["firewalld.service"], "ufw runs on every Ubuntu and is off");
    assert_eq!(facts.time_services, ["chrony.service"]);
}
