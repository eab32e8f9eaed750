//! What takes a cluster's traces off a host must take all of them, and nothing of anybody else.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use crate::common::Host;
use kubexm_ops::teardown::{mounts, network, pods, unmount};
use kubexm_ops::{Machine, Wave, dispatch};
use kubexm_plan::op::{SNAPSHOTS, StateDir, Unit};
use kubexm_plan::{Op, Reset};
use serde_json::json;

mod isulad;
mod own_names;

const BASE: &str = "25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n";

fn mounted(host: &Host, mounts: &[(&str, &str, &str)]) {
    let lines = mounts.iter().enumerate().map(|(number, (point, kind, source))| {
        host.put(&format!("{}/.keep", point.replace("\\040", " ")), "");
        format!("{} 25 0:{} / {point} rw - {kind} {source} rw\n", 100 + number, 40 + number)
    });
    let text = BASE.to_owned() + &lines.collect::<String>();
    host.put("/proc/self/mountinfo", text);
}

fn process(host: &Host, pid: u32, parent: u32, name: &str, command: &[&str], cgroup: &str) {
    host.put(&format!("/proc/{pid}/stat"), format!("{pid} ({name}) S {parent} 1 1 0 -1\n"));
    host.put(&format!("/proc/{pid}/cmdline"), command.join("\0") + "\0");
    host.put(&format!("/proc/{pid}/cgroup"), format!("0::{cgroup}\n"));
}

fn shim(namespace: &str) -> Vec<&str> {
    vec!["/usr/local/bin/containerd-shim-runc-v2", "-namespace", namespace, "-id", "1", "-address", "/run/c.sock"]
}

fn pids(machine: &Machine) -> Vec<u32> {
    pods::running(machine).expect("a look").into_iter().map(|process| process.pid).collect()
}

#[test]
fn the_table_and_the_link_of_kube_proxys_ipvs_go() {
    let host = Host::fresh();
    host.put("/usr/sbin/ipvsadm", "#!/bin/true\n");
    host.put("/sys/class/net/kube-ipvs0/type", "1\n");
    host.put("/proc/net/ip_vs", "IP Virtual Server version 1.2.1\nTCP  0A600001:01BB rr\n");
    assert_eq!(network::leftovers(&host.machine).expect("a look"), ["link kube-ipvs0"]);
    network::clear(&host.machine).expect("cleared");
    assert!(!host.machine.path("/sys/class/net/kube-ipvs0").exists());
    assert_eq!(host.read("/proc/net/ip_vs"), "IP Virtual Server version 1.2.1\n");
    assert_eq!(network::leftovers(&host.machine).expect("a look"), Vec::<String>::new());
}

#[test]
fn mounts_below_a_folder_go_newest_first_and_others_stay() {
    let host = Host::fresh();
    mounted(
        &host,
        &[
            ("/var/lib/kubelet", "ext4", "/dev/sdb1"),
            ("/var/lib/kubelet/pods/1/volumes/a\\040b", "nfs4", "10.0.0.9:/export"),
            ("/var/lib/kubelet/pods/1/volumes/a\\040b/inner", "tmpfs", "tmpfs"),
            ("/var/lib/kubelet-other", "ext4", "/dev/sdc1"),
        ],
    );
    unmount::unmount_below(&host.machine, "/var/lib/kubelet").expect("unmounted");
    let left: Vec<String> = mounts::all(&host.machine).expect("mounts").into_iter().map(|m| m.point).collect();
    assert_eq!(left, ["/", "/var/lib/kubelet", "/var/lib/kubelet-other"]);
}

#[test]
fn a_mount_that_is_in_use_stops_the_run_by_its_name() {
    let host = Host::fresh();
    mounted(&host, &[("/var/lib/kubelet/pods/1/volumes/nfs", "nfs4", "10.0.0.9:/export")]);
    host.put("/run/kubexm-double/busy-mounts.json", "[\"/var/lib/kubelet/pods/1/volumes/nfs\"]");
    let error = unmount::unmount_below(&host.machine, "/var/lib/kubelet").expect_err("it is in use").full();
    assert!(error.contains("/var/lib/kubelet/pods/1/volumes/nfs (nfs4 of 10.0.0.9:/export)"), "{error}");
    assert!(error.contains("target is busy"), "{error}");
}

#[test]
fn a_disk_of_the_operators_fstab_is_not_unmounted_wherever_it_is() {
    let host = Host::fresh();
    let point = "/var/lib/kubelet/pods/1/volumes/x/y";
    mounted(&host, &[(point, "ext4", "/dev/sdb1")]);
    host.put("/etc/fstab", format!("/dev/sdb1 {point} ext4 defaults 0 0\n"));
    let error = unmount::unmount_below(&host.machine, "/var/lib/kubelet").expect_err("it is the operator's").full();
    assert!(error.contains("(ext4 of /dev/sdb1)") && error.contains("left with their data"), "{error}");
    assert_eq!(mounts::below(&host.machine, "/var/lib/kubelet").expect("mounts").len(), 1);
}

#[test]
fn a_folder_with_a_mount_below_it_is_not_deleted_at_all() {
    let host = Host::fresh();
    host.put("/var/lib/kubelet/a", "ours");
    host.put("/var/lib/kubelet/pods/1/nfs/data", "the user's");
    mounted(&host, &[("/var/lib/kubelet/pods/1/nfs", "nfs4", "10.0.0.9:/export")]);
    let error = mounts::remove_tree(&host.machine, "/var/lib/kubelet").expect_err("a mount is below").full();
    assert!(error.contains("/var/lib/kubelet/pods/1/nfs"), "{error}");
    assert_eq!(host.read("/var/lib/kubelet/a"), "ours");
    assert_eq!(host.read("/var/lib/kubelet/pods/1/nfs/data"), "the user's");
}

#[test]
fn folders_are_removed_and_mount_points_emptied() {
    let host = Host::fresh();
    host.put("/var/lib/cni/networks/10.244.0.2", "x");
    host.put("/var/lib/etcd/member/db", "x");
    mounted(&host, &[("/var/lib/etcd", "ext4", "/dev/sdb1")]);
    mounts::remove_tree(&host.machine, "/var/lib/cni").expect("removed");
    mounts::remove_tree(&host.machine, "/var/lib/etcd").expect("emptied");
    mounts::remove_tree(&host.machine, "/var/lib/nothing").expect("nothing to do");
    assert!(!host.machine.path("/var/lib/cni").exists());
    assert_eq!(std::fs::read_dir(host.machine.path("/var/lib/etcd")).expect("the mount point").count(), 0);
}

#[test]
fn a_link_in_a_folder_is_removed_and_not_followed() {
    let host = Host::fresh();
    host.put("/srv/data/file", "the user's");
    host.put("/var/lib/kubelet/a", "x");
    std::os::unix::fs::symlink(host.machine.path("/srv/data"), host.machine.path("/var/lib/kubelet/link"))
        .expect("a link");
    mounts::remove_tree(&host.machine, "/var/lib/kubelet").expect("removed");
    assert_eq!(host.read("/srv/data/file"), "the user's");
    assert!(!host.machine.path("/var/lib/kubelet").exists());
}

#[test]
fn every_process_of_a_pod_ends_and_other_containers_keep_running() {
    let host = Host::fresh();
    process(&host, 1, 0, "systemd", &["/sbin/init"], "/init.scope");
    process(&host, 10, 1, "containerd-shim", &shim("k8s.io"), "/system.slice/containerd.service");
    process(&host, 11, 10, "pause) S 1 (x", &["/pause"], "/kubepods.slice/pod1.slice/a.scope");
    process(&host, 12, 11, "child", &["child"], "/elsewhere");
    process(&host, 13, 1, "orphan", &["orphan"], "/kubepods.slice/pod1.slice/a.scope");
    process(&host, 20, 1, "containerd-shim", &shim("moby"), "/system.slice/docker.service");
    process(&host, 21, 20, "nginx", &["nginx"], "/system.slice/docker-1.scope");
    process(&host, 22, 21, "nested", &["kubelet"], "/system.slice/docker-1.scope/kubepods/pod2");
    process(&host, 30, 1, "sshd", &["sshd"], "/system.slice/ssh.service");
    host.put("/proc/11/stubborn", "");
    assert_eq!(pids(&host.machine), [10, 11, 12, 13]);
    pods::stop_all(&host.machine).expect("stopped");
    assert_eq!(pids(&host.machine), [0; 0]);
    for pid in [1, 20, 21, 22, 30] {
        assert!(host.machine.path(format!("/proc/{pid}/stat")).exists(), "process {pid} is not of a pod");
    }
}

/// Whoever has an account could start such processes without end, and no reset would end.
#[test]
fn a_process_of_another_user_is_no_supervisor_whatever_its_arguments_say() {
    let host = Host::fresh();
    process(&host, 40, 1, "containerd-shim", &shim("k8s.io"), "/user.slice/user-1000.slice/session-1.scope");
    process(&host, 41, 40, "child", &["child"], "/user.slice/user-1000.slice/session-1.scope");
    for (program, found) in [("containerd-shim-runc-v2 (deleted)", &[40, 41][..]), ("su", &[])] {
        let exe = host.machine.path("/proc/40/exe");
        std::os::unix::fs::symlink(format!("/usr/bin/{program}"), &exe).expect("a link");
        assert_eq!(pids(&host.machine), found, "{program}");
        std::fs::remove_file(exe).expect("removed");
    }
    assert_eq!(pids(&host.machine), [40, 41]);
    if std::os::unix::fs::chown(host.machine.path("/proc/40"), Some(1234), Some(1234)).is_err() {
        // Only root can give a folder away.
        return;
    }
    assert_eq!(pids(&host.machine), [0; 0]);
}

#[test]
fn containers_of_kubexms_docker_end_and_those_of_another_stay() {
    let host = Host::fresh();
    let of =
        |socket: &'static str| vec!["/x/containerd-shim-runc-v2", "-namespace", "moby", "-id", "1", "-address", socket];
    let ours = of("/run/kubexm-docker/containerd/containerd.sock");
    let theirs = of("/var/run/docker/containerd/containerd.sock");
    process(&host, 1, 0, "systemd", &["/sbin/init"], "/init.scope");
    process(&host, 10, 1, "containerd-shim", &ours, "/system.slice/docker.service");
    process(&host, 11, 10, "pause", &["/pause"], "/elsewhere");
    process(&host, 20, 1, "containerd-shim", &theirs, "/system.slice/other.service");
    process(&host, 21, 20, "nginx", &["nginx"], "/system.slice/docker-1.scope");
    assert_eq!(pids(&host.machine), [10, 11]);
}

#[test]
fn control_groups_of_pods_go_with_their_processes() {
    let host = Host::fresh();
    mounted(&host, &[("/sys/fs/cgroup", "cgroup2", "cgroup2")]);
    std::fs::remove_file(host.machine.path("/sys/fs/cgroup/.keep")).expect("a kept file");
    for group in ["kubepods/burstable/pod1", "kubepods/besteffort", "system.slice"] {
        std::fs::create_dir_all(host.machine.path(format!("/sys/fs/cgroup/{group}"))).expect("a group");
    }
    pods::stop_all(&host.machine).expect("stopped");
    assert!(!host.machine.path("/sys/fs/cgroup/kubepods").exists());
    assert!(host.machine.path("/sys/fs/cgroup/system.slice").exists());
}

#[test]
fn a_clusters_links_namespaces_and_rules_go_and_dockers_stay() {
    let host = Host::fresh();
    for link in ["eth0", "docker0", "cni0", "flannel.1", "veth1", "veth2"] {
        host.put(&format!("/sys/class/net/{link}/address"), "");
    }
    for (link, master) in [("veth1", "cni0"), ("veth2", "docker0")] {
        std::os::unix::fs::symlink(format!("../{master}"), host.machine.path(format!("/sys/class/net/{link}/master")))
            .expect("a master");
    }
    host.put("/run/netns/cni-1", "");
    host.put("/run/netns/isulacni-2", "");
    host.put("/run/netns/mine", "");
    mounted(&host, &[]);
    let at = |name: &str| format!("90 25 0:4 net:[1] /run/netns/{name} rw - nsfs nsfs rw\n");
    host.put("/proc/self/mountinfo", [BASE, &at("cni-1"), &at("isulacni-2")].concat());
    for end in ["save", "restore"] {
        host.put(&format!("/usr/sbin/iptables-{end}"), "");
    }
    let rules = "*nat\n:PREROUTING ACCEPT [0:0]\n:DOCKER - [0:0]\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j DOCKER\n\
                 -A PREROUTING -j KUBE-SERVICES\nCOMMIT\n";
    host.put("/run/kubexm-double/iptables-save", rules);
    let wanted = |namespaces: &[&'static str]| {
        [&["link cni0", "link flannel.1", "link veth1"], namespaces, &["rules of iptables"]].concat()
    };
    let found = || network::leftovers(&host.machine).expect("a look");
    assert_eq!(found(), wanted(&["namespace /run/netns/cni-1"]), "an iSulad of the host's own has pods, too");
    host.put("/usr/local/lib/kubexm-isulad/runc", "");
    assert_eq!(found(), wanted(&["namespace /run/netns/cni-1", "namespace /run/netns/isulacni-2"]));
    network::clear(&host.machine).expect("cleared");
    assert_eq!(network::leftovers(&host.machine).expect("a look"), [""; 0]);
    assert_eq!(
        host.read("/run/kubexm-double/iptables-restore"),
        "*nat\n:KUBE-SERVICES - [0:0]\n-D PREROUTING -j KUBE-SERVICES\n-X KUBE-SERVICES\nCOMMIT\n"
    );
    for path in ["/sys/class/net/docker0", "/sys/class/net/veth2", "/sys/class/net/eth0", "/run/netns/mine"] {
        assert!(host.machine.path(path).exists(), "{path} is not the cluster's");
    }
}

#[test]
fn links_of_pods_without_a_bridge_pinned_programs_and_a_networks_own_mount_go() {
    let host = Host::fresh();
    for link in ["eth0", "lxcbr0", "lxcbr0-nic", "cilium_host", "cilium_net", "lxc4f2a91b03c7d", "lxc_health"] {
        host.put(&format!("/sys/class/net/{link}/address"), "");
    }
    let pins =
        ["cilium/devices/eth0/links/cil_from_netdev", "tc/globals/cilium_ipcache", "tc/globals/theirs", "theirs/map"];
    pins.iter().for_each(|pin| host.put(&format!("/sys/fs/bpf/{pin}"), ""));
    mounted(&host, &[]);
    let mount = "91 25 0:30 / /run/cilium/cgroupv2 rw - cgroup2 none rw\n";
    host.put("/proc/self/mountinfo", format!("{BASE}{mount}"));
    let found = network::leftovers(&host.machine).expect("a look");
    let wanted = [
        "link cilium_host",
        "link cilium_net",
        "link lxc4f2a91b03c7d",
        "link lxc_health",
        "mount /run/cilium/cgroupv2",
        "pinned /sys/fs/bpf/cilium",
        "pinned /sys/fs/bpf/tc/globals/cilium_ipcache",
    ];
    assert_eq!(found, wanted);
    network::clear(&host.machine).expect("cleared");
    assert_eq!(network::leftovers(&host.machine).expect("a look"), [""; 0]);
    for path in [
        "/sys/class/net/lxcbr0",
        "/sys/class/net/lxcbr0-nic",
        "/sys/fs/bpf/tc/globals/theirs",
        "/sys/fs/bpf/theirs/map",
    ] {
        assert!(host.machine.path(path).exists(), "{path} is not the cluster's");
    }
}

#[test]
fn rules_of_routing_and_filters_of_links_go_and_the_kernels_own_rule_comes_back() {
    let host = Host::fresh();
    let state = |name: &str| format!("/run/kubexm-double/{name}");
    host.put(
        &state("ip-rules"),
        "9:\tfrom all fwmark 0x200/0xf00 lookup 2004 proto kernel\n100:\tfrom all lookup local proto kernel\n32766:\tfrom all lookup main\n",
    );
    host.put(
        &state("tc-filters"),
        "filter protocol all pref 1 bpf chain 0 handle 0x1 cil_from_netdev-eth0 direct-action not_in_hw id 71\n",
    );
    mounted(&host, &[]);
    let wanted = ["program cil_from_netdev-eth0 at a link", "rule 4 9 of table 2004", "rule 4 100 of table local"];
    assert_eq!(network::leftovers(&host.machine).expect("a look"), wanted);
    network::clear(&host.machine).expect("cleared");
    assert_eq!(network::leftovers(&host.machine).expect("a look"), [""; 0]);
    let rules = std::fs::read_to_string(host.machine.path(state("ip-rules"))).expect("rules");
    assert_eq!(rules, "0:\tfrom all lookup local\n32766:\tfrom all lookup main\n");
    assert!(!host.machine.path(state("tc-filters")).exists(), "nothing holds filters of the link any more");
}

#[test]
fn a_reset_keeps_earlier_content_of_a_folder_and_removes_new_content() {
    let host = Host::fresh();
    let (folder, manifests) = ("/etc/kubernetes".to_owned(), "/etc/kubernetes/manifests".to_owned());
    host.put("/etc/kubernetes/audit-policy.yaml", "theirs");
    host.put("/etc/kubernetes/lost+found/x", "the file system's");
    std::fs::create_dir_all(host.machine.path(&manifests)).expect("a folder");
    let before = dispatch::observe(&StateDir::at(&folder).into(), &host.machine).expect("a look").raw();
    assert_eq!(before["held"], json!(["audit-policy.yaml", "manifests/"]));

    host.put("/etc/kubernetes/admin.conf", "ours");
    host.put("/etc/kubernetes/manifests/etcd.yaml", "ours");
    let there = |path: &str| host.machine.path(path).exists();
    let paths = vec![folder.clone(), manifests.clone()];
    let names = vec!["audit-policy.yaml".to_owned(), "manifests".to_owned()];
    let spared = BTreeMap::from([(folder, names), (manifests, Vec::new())]);
    let aside = Op::from(Reset::MoveStateAside { paths: paths.clone(), spared, moved: BTreeSet::new() });
    let found = dispatch::observe(&aside, &host.machine).expect("a look");
    assert!(!found.satisfied);
    for _ in 0..2 {
        dispatch::converge(&aside, &host.machine).expect("set aside");
        assert!(dispatch::observe(&aside, &host.machine).expect("a look").satisfied);
        assert!(!there("/etc/kubernetes/admin.conf") && !there("/etc/kubernetes/manifests/etcd.yaml"));
        assert_eq!(host.read("/etc/kubernetes/audit-policy.yaml"), "theirs");

        dispatch::restore(&aside, &host.machine, &found, Wave::Data).expect("back");
        assert_eq!(host.read("/etc/kubernetes/manifests/etcd.yaml"), "ours");
        assert_eq!(host.read("/etc/kubernetes/admin.conf"), "ours");
    }
    dispatch::converge(&aside, &host.machine).expect("set aside");
    let forgotten = Op::from(Reset::Purge { paths, parents: Vec::new() });
    dispatch::converge(&forgotten, &host.machine).expect("forgotten");
    assert!(dispatch::observe(&forgotten, &host.machine).expect("a look").satisfied);
    let mut left = Vec::from_iter(host.tree().into_keys().filter(|path| path.starts_with("etc/kubernetes/")));
    left.retain(|path| !path.contains("lost+found"));
    assert_eq!(left, ["etc/kubernetes/audit-policy.yaml", "etc/kubernetes/manifests"]);
}

#[test]
fn a_link_that_came_since_is_not_followed_when_a_reset_is_rolled_back() {
    let host = Host::fresh();
    host.put("/var/lib/containerd/x/y", "the cluster's");
    let paths = vec!["/var/lib/containerd".to_owned()];
    let aside = Op::from(Reset::MoveStateAside { paths, spared: BTreeMap::new(), moved: BTreeSet::new() });
    let found = dispatch::observe(&aside, &host.machine).expect("a look");
    dispatch::converge(&aside, &host.machine).expect("set aside");
    host.put("/srv/theirs/z", "theirs");
    std::fs::create_dir_all(host.machine.path("/var/lib/containerd")).expect("a folder");
    let link = host.machine.path("/var/lib/containerd/x");
    std::os::unix::fs::symlink(host.machine.path("/srv/theirs"), &link).expect("a link");
    let error = dispatch::restore(&aside, &host.machine, &found, Wave::Data).expect_err("a link").full();
    assert!(error.contains("/var/lib/containerd/x is no folder now"), "{error}");
    assert!(!host.machine.path("/srv/theirs/y").exists(), "it went where the link leads");
    std::fs::remove_file(&link).expect("the link goes");
    dispatch::restore(&aside, &host.machine, &found, Wave::Data).expect("back");
    assert_eq!(host.read("/var/lib/containerd/x/y"), "the cluster's");
}

#[test]
fn what_a_killed_backup_has_left_in_clear_goes_with_a_reset_and_the_snapshot_of_an_upgrade_stays() {
    for upgraded in [true, false] {
        let host = Host::fresh();
        host.put("/var/lib/kubexm/stamp.json", "{}");
        for name in ["lab-0.backup.db", "lab-0.scratch/member/snap/db", ".lab-0.backup.partial", "restore-0.db"] {
            host.put(&format!("{SNAPSHOTS}/{name}"), "every Secret");
        }
        let theirs = format!("{SNAPSHOTS}/before-v1.35.4.db");
        if upgraded {
            host.put(&theirs, "theirs");
        }
        let forgotten = Op::from(Reset::Purge { paths: Vec::new(), parents: Vec::new() });
        dispatch::converge(&forgotten, &host.machine).expect("forgotten");
        assert!(dispatch::observe(&forgotten, &host.machine).expect("a look").satisfied);
        let entries = std::fs::read_dir(host.machine.path(SNAPSHOTS)).map(Iterator::count).ok();
        assert_eq!(entries, upgraded.then_some(1), "upgraded: {upgraded}");
        assert_eq!(host.machine.path(&theirs).exists(), upgraded);
    }
}

#[test]
fn large_folders_are_listed_less_deeply_and_huge_ones_not_at_all() {
    let host = Host::fresh();
    let held =
        || dispatch::observe(&StateDir::at("/var/lib/x").into(), &host.machine).expect("a look").raw()["held"].clone();
    assert_eq!(held(), json!(null));
    (0..200).for_each(|number| host.put(&format!("/var/lib/x/deep/{number}"), ""));
    (0..100).for_each(|number| host.put(&format!("/var/lib/x/deeper/{number}"), ""));
    assert_eq!(held(), json!(["deep", "deeper"]), "both stay whole");
    (0..300).for_each(|number| host.put(&format!("/var/lib/x/{number}"), ""));
    assert_eq!(held().as_array().map(Vec::len), Some(302));
    (0..66_000).for_each(|number| host.put(&format!("/var/lib/x/{number}"), ""));
    assert_eq!(held(), json!(null));
}

#[test]
fn a_join_that_outlived_its_agent_ends_before_pods_are_stopped_and_so_does_the_kubelet_that_it_started() {
    let host = Host::fresh();
    host.put("/proc/1/stat", "1 (systemd) S 0 1 1 0 -1\n");
    let (act, kubelet) = ("kubexm-act-create-node1-join.service", "kubelet.service");
    let op = |name: &str, runs| {
        Op::from(Unit {
            name: name.to_owned(),
            enabled: false,
            running: Some(runs),
            loaded: Vec::new(),
            reloaded: Vec::new(),
        })
    };
    let stopped = |name| dispatch::observe(&op(name, false), &host.machine).expect("a look").satisfied;
    for name in [act, kubelet] {
        host.unit(name, "/usr/local/bin/x");
        dispatch::converge(&op(name, true), &host.machine).expect("started");
        assert!(!stopped(name));
    }
    let pods = Op::from(Reset::PodsStopped);
    let found = dispatch::observe(&pods, &host.machine).expect("a look");
    assert!(!found.satisfied && found.raw()["what"] == json!([act]), "{:?}", found.raw());
    dispatch::converge(&pods, &host.machine).expect("stopped");
    assert!(stopped(act) && stopped(kubelet));
    assert!(dispatch::observe(&pods, &host.machine).expect("a look").satisfied);
}

#[test]
fn routes_that_outlive_a_network_go_and_those_of_others_stay() {
    let host = Host::fresh();
    let state = |name: &str| format!("/run/kubexm-double/{name}");
    for link in ["eth0", "tunl0", "vxlan.calico", "cali3f2a91b03c7", "calibre"] {
        host.put(&format!("/sys/class/net/{link}/address"), "");
    }
    for end in ["save", "restore"] {
        host.put(&format!("/usr/sbin/iptables-{end}"), "");
    }
    host.put(&state("iptables-save"), "*filter\n:FORWARD ACCEPT [0:0]\n:cali-FORWARD - [0:0]\nCOMMIT\n");
    let own = "10.233.90.0/26 via 10.233.90.0 dev vxlan.calico proto 80 onlink\nblackhole 10.233.75.0/26 proto 80\n";
    // The second one is no longer there when its turn comes.
    let direct =
        "10.233.91.0/26 via 10.77.0.14 dev eth0 proto 80\n10.233.91.0/26 via 10.77.0.15 dev eth0 proto 80 metric 9\n";
    let theirs = "default via 10.77.0.1 dev eth0 proto 80\n10.99.0.0/16 via 10.77.0.9 dev eth0 proto bird\nblackhole 192.0.2.0/24 proto static\n";
    host.put(&state("ip-routes"), format!("{own}{direct}{theirs}"));
    mounted(&host, &[]);
    let mut found = network::leftovers(&host.machine).expect("a look");
    let wanted = [
        "link cali3f2a91b03c7",
        "link vxlan.calico",
        "route 10.233.91.0/26",
        "route 10.233.91.0/26",
        "route blackhole 10.233.75.0/26",
        "rules of iptables",
    ];
    found.sort();
    assert_eq!(found, wanted);
    network::clear(&host.machine).expect("cleared");
    assert_eq!(network::leftovers(&host.machine).expect("a look"), [""; 0]);
    assert_eq!(host.read(&state("ip-routes")), theirs);
    assert!(host.machine.path("/sys/class/net/calibre").exists() && host.machine.path("/sys/class/net/tunl0").exists());
}

#[test]
fn routes_to_pods_by_way_of_other_hosts_go_even_after_their_networks_folder_was_set_aside() {
    for folder in ["/run/flannel", "/run/.kubexm-reset-flannel", "/run/.kubexm-reset-flannel.1"] {
        let host = Host::fresh();
        host.put("/sys/class/net/eth0/address", "");
        let theirs =
            "10.77.0.0/24 dev eth0 proto kernel scope link src 10.77.0.11\n10.99.0.0/16 via 10.77.0.9 dev eth0 \n";
        let ours = "10.233.65.0/24 via 10.77.0.12 dev eth0 \n";
        host.put("/run/kubexm-double/ip-routes", format!("{theirs}{ours}"));
        mounted(&host, &[]);
        assert_eq!(network::leftovers(&host.machine).expect("a look"), [""; 0], "nobody says whose it is");
        host.put(&format!("{folder}/subnet.env"), "FLANNEL_NETWORK=10.233.64.0/18\nFLANNEL_SUBNET=10.233.64.1/24\n");
        assert_eq!(network::leftovers(&host.machine).expect("a look"), ["route 10.233.65.0/24"], "{folder}");
        network::clear(&host.machine).expect("cleared");
        assert_eq!(host.read("/run/kubexm-double/ip-routes"), theirs);
    }
}

#[test]
fn routes_of_bird_go_where_the_network_of_pods_is_written_down_with_the_address_on_the_kernels_own_tunnel() {
    let host = Host::fresh();
    for link in ["eth0", "tunl0"] {
        host.put(&format!("/sys/class/net/{link}/address"), "");
    }
    let theirs = "10.99.0.0/16 via 10.77.0.9 dev eth0 proto bird\nblackhole 192.0.2.0/24 proto bird\n";
    let ours = "blackhole 10.233.75.0/26 proto bird\n10.233.91.0/26 via 10.77.0.14 dev tunl0 proto bird onlink\n";
    host.put("/run/kubexm-double/ip-routes", format!("{theirs}{ours}"));
    host.put("/run/kubexm-double/ip-addresses", "eth0 10.77.0.11/24\ntunl0 10.233.75.1/32\ntunl0 198.51.100.9/32\n");
    mounted(&host, &[]);
    assert_eq!(network::leftovers(&host.machine).expect("a look"), [""; 0], "nobody says whose they are");
    host.put("/etc/kubexm/pod-networks", "POD_NETWORK=10.233.64.0/18\n");
    let wanted = ["route blackhole 10.233.75.0/26", "route 10.233.91.0/26", "address 10.233.75.1/32 on tunl0"];
    assert_eq!(network::leftovers(&host.machine).expect("a look"), wanted);
    network::clear(&host.machine).expect("cleared");
    assert_eq!(network::leftovers(&host.machine).expect("a look"), [""; 0]);
    assert_eq!(host.read("/run/kubexm-double/ip-routes"), theirs);
    assert_eq!(host.read("/run/kubexm-double/ip-addresses"), "eth0 10.77.0.11/24\ntunl0 198.51.100.9/32\n");
}
